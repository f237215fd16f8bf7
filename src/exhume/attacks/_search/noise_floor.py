"""When a residual above rounding is what noise or drift leaves, rather than a spurious minimum.

A row's contribution is the increase in loss when it is removed. At a spurious minimum some row matches no training
sample, and contributes no more than the residual; where every row contributes far more, each matches a sample. At other
spurious minima several rows are mixtures of samples: they contribute enough, but the residual is larger than the drift
of the features explains. That drift can be estimated from the trained weights (see `_finish.drift`).
"""

from __future__ import annotations

import math

import torch

from exhume.attacks._base.problem import EquationCount, Problem
from exhume.attacks._base.search_tuning import NoiseFloorTuning
from exhume.equation.span import Span, SpanPoint
from exhume.features import TrainedBody


def is_noise_floor(equation: Span, point: SpanPoint, counted: EquationCount, tuning: NoiseFloorTuning) -> bool:
    """Whether the residual is small and every sample's contribution exceeds the loss by the margin.

    Args:
        equation: that was solved.
        point: a minimum of its loss.
        counted: equations and unknowns. With few surplus equations a fit of anything leaves little, so that the margin
            grows.
        tuning: the margin.
    """
    if not counted.determined:
        return False
    surplus = 1 - counted.unknowns / counted.equations
    least = float(equation.contributions(point).min())
    return math.sqrt(point.loss) < tuning.max_residual and point.loss < tuning.max_share * surplus * least


def estimated_shift(problem: Problem, point: SpanPoint) -> torch.Tensor | None:
    """A^T D / 2 (k, p): what the drift D of the features took from Theta, to first order; None if nothing drifted."""
    features, head = problem.features.with_dtype(point.rows.dtype), problem.target.trained_head
    if head is None or not isinstance(features, TrainedBody):
        return None
    rows, weights = _all_samples(problem, point)
    return 0.5 * weights.T @ features.drift(rows, weights @ head.to(rows))


def drift_residual(equation: Span, point: SpanPoint, shift: torch.Tensor) -> float:
    """The relative residual that the shift alone leaves."""
    return math.sqrt(equation.squared_size(equation.project(point, shift)) / equation.squared_norm)


def is_explained_by_drift(problem: Problem, equation: Span, point: SpanPoint) -> bool:
    """Whether the estimated drift leaves nearly as large a residual as there is; also if it cannot be estimated."""
    shift = estimated_shift(problem, point)
    if shift is None:
        return True
    return math.sqrt(point.loss) <= problem.tuning.noise_floor.max_excess * drift_residual(equation, point, shift)


def _all_samples(problem: Problem, point: SpanPoint) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples and their coefficients, the known ones too: all of them moved the body."""
    known = problem.target.knowledge.samples
    of_known = point.nuisance_coefficients
    if known is None or of_known is None:
        return point.samples, point.coefficients
    return torch.cat([point.samples, known.to(point.samples)]), torch.cat([point.coefficients, of_known.T])
