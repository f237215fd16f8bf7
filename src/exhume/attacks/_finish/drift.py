"""Feature drift: what it did to the span equation, estimated from the trained weights alone and taken out of it.

The head moved by Theta = sum over time of a(t)^T Phi(t), but the attacker has only the features Phi = Phi(T) of the
trained body, which moved meanwhile. Gradient descent with one step size for all weights moved the body by
sum_j J_theta(x_j)^T W^T a_j, with W the head and a_j the sample's coefficients, hence the features by
D_i = J_theta(x_i) sum_j J_theta(x_j)^T W^T a_j. If body and head moved in step, the average features were half of that
behind the final ones: Theta = A^T (Phi - D / 2). All of it is known once samples are; the initial body is not needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from exhume.attacks.base import Problem
from exhume.solvers import Inner, Patience, levenberg_marquardt
from exhume.span import Point

_ROUNDS = 3
# The corrected equation must fit better by this factor of the loss, or the body did not move like that.
_MUST_FALL = 0.8
_PATIENCE = Patience(8, 1e-7, window=2, fall=0.9)
_INNER = Inner(20, 0.03)


@dataclass(frozen=True)
class Drift:
    """What was found of the drift.

    Attributes:
        samples: solved from the corrected equation, or as they came if that fits no better.
        displacement: Theta with the drift taken out; None if it was not.
        floor: the relative residual that the estimated drift alone would leave.
        errors: for every sample the relative error to expect of what the estimate has missed; empty if not corrected.
    """

    samples: torch.Tensor
    displacement: torch.Tensor | None
    floor: float
    errors: tuple[float, ...]

    @property
    def note(self) -> str:
        """What was found, in a sentence."""
        how = "taken out of the equation" if self.displacement is not None else "not confirmed by the residual"
        return f"Drift: features that moved in training would leave a residual of {self.floor:.1e}; {how}."


def drift_of(drift: Drift | None) -> dict[str, Any]:
    """What a proposal says of the drift."""
    if drift is None:
        return {}
    return {"displacement": drift.displacement, "drift_floor": drift.floor, "drift_errors": drift.errors}


def take_out_drift(
    problem: Problem, samples: torch.Tensor, radius: float | None, ridge: float, watch: Callable[[Point], bool]
) -> Drift | None:
    """Corrects the equation for drift and solves it again from the samples; None if the body has no weights.

    What the estimate misses is judged by the residual: if a share of it is left, that share of the correction is the
    expected error.

    Args:
        problem: the target and its features.
        samples: that solve the equation as it is.
        radius: norm that they keep; None lets it change.
        ridge: share of the mean diagonal added to Phi Phi^T.
        watch: called after every accepted step; False ends a round.
    """
    target, features = problem.target, problem.features.with_dtype(samples.dtype)
    head = target.trained_head
    if head is None:
        return None
    theta = target.displacement.to(samples.dtype)
    span = problem.span(features, theta, ridge=ridge)
    first = best = span.at(samples)
    floor, corrected = math.nan, None
    for _ in range(_ROUNDS):
        rows, weights = _all_samples(problem, best)
        moved = features.drift(rows, weights @ head.to(samples))
        if moved is None:
            return None
        shift = 0.5 * weights.T @ moved
        if math.isnan(floor):
            floor = math.sqrt(span.squared_size(span.project(first, shift)) / span.squared_norm)
        trial = problem.span(features, theta + shift, ridge=ridge, squared_norm=span.squared_norm)
        point = levenberg_marquardt(
            trial, best.samples, _PATIENCE, radius=radius, inner=_INNER, damping=1e-3, watch=watch
        )
        if not point.loss < _MUST_FALL * best.loss:
            break
        best, corrected = point, trial.displacement
    if corrected is None:
        return Drift(samples, None, floor, ())
    return Drift(best.samples, corrected, floor, _errors(first, best))


def _all_samples(problem: Problem, point: Point) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples and their coefficients, the known ones too: all of them moved the body."""
    known = problem.target.knowledge.samples
    if known is None or point.nuisance is None:
        return point.samples, point.coefficients
    return torch.cat([point.samples, known.to(point.samples)]), torch.cat([point.coefficients, point.nuisance.T])


def _errors(before: Point, after: Point) -> tuple[float, ...]:
    left = math.sqrt(after.loss / before.loss)
    change = torch.linalg.vector_norm((after.samples - before.samples).double(), dim=1)
    sizes = torch.linalg.vector_norm(after.samples.double(), dim=1)
    return tuple((left * change / sizes).tolist())
