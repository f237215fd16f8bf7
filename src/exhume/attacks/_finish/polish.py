"""Solving the model's own equation to the floor of the precision."""

from __future__ import annotations

from dataclasses import replace

import torch

from exhume.attacks._base.problem import Problem
from exhume.attacks._base.session import Session
from exhume.attacks._base.tuning import PolishTuning
from exhume.attacks._search.working_equation import working_equation
from exhume.equation.span import Span, SpanPoint
from exhume.solvers import StoppingRule, levenberg_marquardt
from exhume.target.target import Target


def affords_double(target: Target, tuning: PolishTuning) -> bool:
    """Whether to polish in float64: always for a float64 victim, and where it is cheap."""
    entries = target.features.num_features * target.features.input_dim
    return target.features.dtype == torch.float64 or entries <= tuning.cheap_in_double


def polish(problem: Problem, samples: torch.Tensor, session: Session) -> torch.Tensor:
    """Solves the model's own equation, nothing free, in float32 and then, where it is cheap, in float64."""
    tuning = problem.tuning.polish
    double = affords_double(problem.target, tuning)
    cg = tuning.cg if double else tuning.cg_large
    stages = [(torch.float32, cg, tuning.damping, tuning.ridge, tuning.tolerance)]
    if double:
        precise = (tuning.cg_double, tuning.damping_double, tuning.ridge_double, tuning.tolerance_double)
        stages.append((torch.float64, *precise))
    if samples.dtype == torch.float64:
        stages = stages[1:]
    max_left = tuning.max_left if double else tuning.max_left_large
    for dtype, cg, damping, ridge, tolerance in stages:
        equation = problem.equation(problem.features.with_dtype(dtype), ridge=ridge)
        rule = StoppingRule(tuning.steps, tolerance, window=1, max_left=max_left)
        samples = levenberg_marquardt(
            equation, samples.to(dtype), problem.norms, rule, cg=cg, damping=damping, should_stop=session.record
        ).point.samples
    return samples


def free_norms(problem: Problem, rows: torch.Tensor, count: int) -> tuple[Span, SpanPoint]:
    """Fits samples of any norm to the working equation, precisely enough to decide signs by its nuisance."""
    tuning = problem.tuning.polish
    double = affords_double(problem.target, tuning)
    equation = working_equation(problem, count, torch.float64 if double else torch.float32)
    rule = tuning.norms_double if double else tuning.norms
    damping = replace(tuning.damping, least=(tuning.damping_double if double else tuning.damping).least)
    rows = rows.to(equation.features.dtype)
    point = levenberg_marquardt(equation, rows, problem.norms, rule, cg=tuning.norms_cg, damping=damping).point
    return equation, point
