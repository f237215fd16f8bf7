"""First-order drift correction: estimated from the trained weights alone, and taken out of the equation.

The head moved by Theta = sum over time of a(t)^T Phi(t), but the attacker has only the features Phi = Phi(T) of the
trained body, which moved meanwhile. Gradient descent with one step size for all weights moved the body by
sum_j J_theta(x_j)^T W^T a_j, with W the head and a_j the sample's coefficients, hence the features by
D_i = J_theta(x_i) sum_j J_theta(x_j)^T W^T a_j. If body and head moved in step, the average features were half of that
behind the final ones: Theta = A^T (Phi - D / 2). All of it is known once samples are; the initial body is not needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from exhume.attacks._base.problem import Drift, Problem
from exhume.attacks._search.noise_floor import drift_residual, estimated_shift
from exhume.equation.span import SpanPoint
from exhume.solvers import levenberg_marquardt


def take_out_drift(
    problem: Problem, samples: torch.Tensor, should_stop: Callable[[SpanPoint], bool] = lambda point: False
) -> Drift | None:
    """Corrects the equation for drift and solves it again from the samples; None if the body has no weights.

    Expected error after the correction = (share of the residual left by it) x (change c of the sample) x (1 + c / c0),
    at most c: the terms that a correction to first order leaves out grow with the square of the change.

    Args:
        problem: the target and its features.
        samples: that solve the equation as it is.
        should_stop: called after every accepted step; True ends a round.
    """
    features, tuning = problem.features.with_dtype(samples.dtype), problem.tuning.drift
    theta = problem.target.displacement.to(samples.dtype)
    equation = problem.equation(features, theta, ridge=tuning.ridge)
    first = best = equation.at(samples)
    floor, corrected = math.nan, None
    for _ in range(tuning.rounds):
        shift = estimated_shift(problem, best)
        if shift is None:
            return None
        if math.isnan(floor):
            floor = drift_residual(equation, first, shift)
        trial = problem.equation(features, theta + shift, ridge=tuning.ridge, squared_norm=equation.squared_norm)
        point = levenberg_marquardt(
            trial,
            best.samples,
            problem.norms,
            tuning.rule,
            cg=tuning.cg,
            damping=tuning.damping,
            should_stop=should_stop,
        ).point
        if not point.loss < tuning.max_left * best.loss:
            break
        best, corrected = point, trial.displacement
    how = "taken out of the equation" if corrected is not None else "not confirmed by the residual"
    note = f"Drift: features that moved in training would leave a residual of {floor:.1e}; {how}."
    if corrected is None:
        return Drift(samples, None, floor, (), note)
    return Drift(best.samples, corrected, floor, _errors(first, best, tuning.first_order), note)


def _errors(before: SpanPoint, after: SpanPoint, first_order: float) -> tuple[float, ...]:
    sizes = torch.linalg.vector_norm(after.samples.double(), dim=1)
    change = torch.linalg.vector_norm((after.samples - before.samples).double(), dim=1) / sizes
    left = math.sqrt(after.loss / before.loss) * (1 + change / first_order)
    return tuple((left.clamp_max(1) * change).tolist())
