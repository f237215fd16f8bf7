"""Levenberg-Marquardt for the span equation, on a product of spheres, with preconditioned conjugate gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from exhume.solvers.conjugate_gradient import conjugate_gradient
from exhume.solvers.normal_equations import NormalEquations
from exhume.solvers.preconditioner import preconditioner_at
from exhume.solvers.sphere import onto_sphere
from exhume.span import Point, Span

# A rejected step multiplies the damping by this, the next one by twice as much, and so on.
_FIRST_RAISE = 4.0
# Relative residual from which rejections are taken for the floating-point floor.
_NEAR_FLOOR = 1e-5
_REJECTIONS = 5
_REJECTIONS_NEAR_FLOOR = 0


@dataclass(frozen=True)
class Inner:
    """How exactly a Gauss-Newton step is solved: conjugate-gradient steps at most, and their tolerance."""

    max_steps: int = 10
    tolerance: float = 0.1


@dataclass(frozen=True)
class Patience:
    """When to end a Levenberg-Marquardt run.

    Attributes:
        steps: at most.
        tolerance: relative residual (the root of the loss) that is good enough.
        window, fall: give up if `window` steps have not brought the loss down to this share.
    """

    steps: int = 50
    tolerance: float = 1e-6
    window: int | None = None
    fall: float = 0.7


@dataclass
class Course:
    """What a Levenberg-Marquardt run remembers between steps, besides its rows; advanced in place.

    Attributes:
        damping: of the next step.
        taken: steps tried.
        losses: the loss after every one of them, and at the start.
        rejections, raised: rejected in a row, and what the next rejection multiplies the damping by.
    """

    damping: float = 1e-2
    taken: int = 0
    losses: list[float] = field(default_factory=list)
    rejections: int = 0
    raised: float = _FIRST_RAISE

    def stalled(self, patience: Patience) -> bool:
        """Whether the last steps did not bring the loss down enough."""
        window = patience.window
        if not window or self.taken < window:
            return False
        return self.losses[-1] > patience.fall * self.losses[-1 - window]


def gauss_newton_step(
    span: Span, point: Point, damping: float, inner: Inner, radius: float | None
) -> tuple[torch.Tensor, float]:
    """Solves (J^T P J + damping diag(H)) D = J^T P Theta over tangent D; returns D and the predicted fall of the loss.

    H (x) I is what J^T P J concentrates on; its n x n inverse is the preconditioner.

    Args:
        radius: norm that the samples keep; None lets it change.
    """
    preconditioner = preconditioner_at(span, point, damping, radius)
    ridge = preconditioner.ridge
    equations = NormalEquations(span, point, preconditioner.solve, preconditioner.restrict, ridge)
    goal = preconditioner.restrict(span.gradient(point))
    solution, rest = conjugate_gradient(
        equations.operator,
        equations.goal(goal),
        equations.precondition,
        max_steps=inner.max_steps,
        tolerance=inner.tolerance,
        agree=span.coordinates.agree,
    )
    step = equations.rows(solution)
    predicted = (step * goal).sum() + (solution * rest).sum() + (ridge * step * step).sum()
    return step, float(predicted) / span.squared_norm


def move(span: Span, point: Point, step: torch.Tensor, radius: float | None) -> torch.Tensor:
    """The rows after a step, the samples put back on their sphere."""
    rows = point.rows + step
    if radius is None:
        return rows
    samples = onto_sphere(rows[: point.num_samples], radius)
    return torch.cat([samples, rows[point.num_samples :]]) if span.num_linear else samples


def levenberg_marquardt(
    span: Span,
    rows: torch.Tensor,
    patience: Patience,
    *,
    radius: float | None,
    inner: Inner | None = None,
    damping: float = 1e-2,
    least_damping: float = 1e-7,
    watch: Callable[[Point], bool] = lambda point: True,
    course: Course | None = None,
) -> Point:
    """Minimises ||P Theta||^2 over the rows, every step tested.

    The damping falls or rises smoothly with the share of the predicted fall that came true (Nielsen 1999). Near the
    floating-point floor no step can win: there the first rejection ends the run.

    Args:
        watch: called after every accepted step; False ends the run.
        course: where an interrupted run stood; a run that is given the same rows and course goes on as it would have.
    """
    inner, course = inner or Inner(), course or Course(damping)
    point = span.at(rows)
    course.losses = course.losses or [point.loss]
    while course.taken < patience.steps and math.sqrt(point.loss) >= patience.tolerance:
        course.taken += 1
        step, predicted = gauss_newton_step(span, point, course.damping, inner, radius)
        tried = span.at(move(span, point, step, radius))
        accepted = tried.loss < point.loss
        if accepted:
            gain = min((point.loss - tried.loss) / max(predicted, 1e-300), 1.0)
            course.damping = max(least_damping, course.damping * max(0.2, 1 - (2 * gain - 1) ** 3))
            point, course.rejections, course.raised = tried, 0, _FIRST_RAISE
        else:
            course.damping *= course.raised
            course.raised, course.rejections = 2 * course.raised, course.rejections + 1
            near_floor = math.sqrt(point.loss) < _NEAR_FLOOR
            if course.rejections > (_REJECTIONS_NEAR_FLOOR if near_floor else _REJECTIONS):
                break
        course.losses.append(point.loss)
        if (accepted and not watch(point)) or course.stalled(patience):
            break
    return point
