"""Features at both ends of training: where a network's initial weights are known, their mean replaces the trained ones.

The head moved by Theta = sum over time of a(t)^T Phi(t): the mean of initial and trained features is closer to the
average than the trained features are. For two-layer networks the training can be retraced as well.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import torch

from exhume.attacks._base.problem import Drift, Problem
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import SearchResult
from exhume.attacks._finish.retrace import Retracing, Start
from exhume.attacks._search.noise_floor import is_noise_floor
from exhume.equation.span import Span, SpanPoint
from exhume.features import FeatureMap, FirstLayerMap, ModuleFeatureMap
from exhume.features.endpoints import BothEnds
from exhume.features.in_subspace import reduced
from exhume.features.load import fastest
from exhume.results.stop import Stop
from exhume.solvers import levenberg_marquardt
from exhume.target.data_subspace import DataSubspace
from exhume.target.target import Target


def with_both_ends(problem: Problem, within: Problem, space: DataSubspace) -> Problem | None:
    """The problem inside the subspace with mean features; None if the initial weights are not known.

    Args:
        problem: in all dimensions.
        within: the same inside the subspace.
        space: the subspace.
    """
    initial = _initial_features(problem.target)
    if initial is None or within.num_samples is None:
        return None
    both = BothEnds(reduced(initial, space.basis), within.target.features)
    return replace(within, features=both, trained=within.features)


def solve_with_both_ends(ends: Problem, samples: torch.Tensor, session: Session) -> SearchResult:
    """Solves the equation with mean features from samples that solve the one with trained features."""
    tuning, rows = ends.tuning.retrace, samples.double()
    equation = ends.equation(ends.features.with_dtype(torch.float64), ridge=tuning.ends_ridge)
    point = levenberg_marquardt(
        equation, rows, ends.norms, tuning.ends, cg=tuning.ends_cg, should_stop=session.record
    ).point
    stop = Stop.FLOOR if _is_noise_floor(ends, equation, point) else session.budget_spent() or Stop.STARTS_SPENT
    return SearchResult(point.rows, len(samples), stop, ends, 1, session.steps)


def correct_drift(
    found: SearchResult, start: Start | None, session: Session, max_passes: float
) -> tuple[SearchResult, Drift]:
    """What is left of the drift with mean features; retraced if the initial weights are given and the budget allows.

    Args:
        found: rows that solve the equation with mean features.
        start: initial weights of a two-layer network.
        session: records the steps.
        max_passes: budget of the retracing.
    """
    ends, rows = found.problem, found.rows
    determined = ends.equation_count(found.num_samples).determined
    near = determined and math.sqrt(ends.equation().at(rows).loss) < ends.tuning.retrace.near
    budget = min(max_passes, session.passes_left())
    retraced = None
    if start is not None and budget > 0 and session.budget_spent() is None and near:
        retraced = Retracing(ends, start, session, budget)(rows)
    rows = rows if retraced is None else retraced.samples
    trained = ends.target.features.with_dtype(rows.dtype)
    floor = math.sqrt(ends.equation(trained).at(rows).loss)
    note = f"Drift: {floor:.1e} with the trained features alone; solved with those at both ends."
    if retraced is None:
        return found, Drift(rows, None, floor, _remaining_errors(ends, trained, rows), note)
    equation = ends.equation(ends.features.with_dtype(rows.dtype), retraced.displacement)
    point = equation.at(rows)
    stop = found.stop
    if stop is not Stop.CONVERGED and (ends.is_found(point) or _is_noise_floor(ends, equation, point)):
        stop = Stop.FLOOR
    elif stop is Stop.FLOOR:
        stop = Stop.STARTS_SPENT
    note += f" Training retraced {retraced.rounds} times, which leaves a residual of {retraced.residual:.1e}."
    return replace(found, rows=rows, stop=stop), Drift(rows, retraced.displacement, floor, retraced.errors, note)


def _is_noise_floor(problem: Problem, equation: Span, point: SpanPoint) -> bool:
    counted = problem.equation_count(point.num_samples)
    return is_noise_floor(equation, point, counted, problem.tuning.noise_floor)


def _initial_features(target: Target) -> FeatureMap | None:
    """The features before training; None if some weights of the body are not known."""
    model, body = target.known_model, target.feature_map
    if model is None or not {name for name in model.trained if not model.in_head(name)} <= set(model.initial):
        return None
    module = copy.deepcopy(model.module)
    module.load_state_dict({name: model.initial[name] for name in model.trained if name in model.initial}, strict=False)
    has_bias = body.bias if isinstance(body, ModuleFeatureMap) else False
    before = fastest(ModuleFeatureMap(module, model.head, target.input_shape, bias=has_bias))
    return before if target.surviving is None else before.subset(target.surviving)


def initial_weights(problem: Problem, space: DataSubspace) -> Start | None:
    """Of a two-layer network all of whose weights are known before training; None of anything else."""
    model, body = problem.target.known_model, problem.target.features
    if model is None or not isinstance(body, FirstLayerMap) or body.has_offset:
        return None
    first = [name for name in model.trained if not model.in_head(name)]
    heads = [name for name in model.trained if model.in_head(name)]
    if len(first) != 1 or len(heads) != 1 or not {*first, *heads} <= set(model.initial):
        return None
    before, head = model.initial[first[0]], model.initial[heads[0]]
    if problem.target.surviving is not None:
        before, head = before[problem.target.surviving], head[:, problem.target.surviving]
    scale = math.sqrt(body.input_dim / space.dim)
    columns = space.basis.to(body.device, body.dtype).T
    return Start(before.to(columns) @ columns, head.to(columns), body.activation.name, scale)


def _remaining_errors(ends: Problem, trained: FeatureMap, rows: torch.Tensor) -> tuple[float, ...]:
    """The relative error that each sample may still have, solved with mean features: see `RetraceTuning.caution`."""
    rows, ridge, tuning = ends.norms.retract(rows), ends.tuning.equation.ridge, ends.tuning.retrace
    alone = levenberg_marquardt(ends.equation(trained, ridge=ridge), rows, ends.norms, tuning.ends).point
    both = ends.equation(ends.features.with_dtype(rows.dtype), ridge=ridge).at(rows)
    change = torch.linalg.vector_norm(alone.samples - rows, dim=1) / torch.linalg.vector_norm(rows, dim=1)
    return tuple((tuning.caution * math.sqrt(both.loss / max(alone.loss, 1e-300)) * change).tolist())
