"""Levenberg-Marquardt with preconditioned conjugate gradients, on samples of fixed or free norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

import torch

from exhume.equation.norms import Norms
from exhume.equation.protocol import AnyPoint, Equation, NormalSystem
from exhume.solvers.conjugate_gradient import CGOptions, conjugate_gradient

# The first rejected step in a row multiplies the damping by this, each further one by twice as much as the last.
_FIRST_RAISE = 4.0
# Relative residual below which a rejected step means that the floating-point floor is reached.
_NEAR_FLOOR = 1e-5
_REJECTIONS = 5
_REJECTIONS_NEAR_FLOOR = 0


@dataclass(frozen=True)
class Damping:
    """The damping of the first step and the least of any, in units of the diagonal of the Gauss-Newton matrix."""

    start: float = 1e-2
    least: float = 1e-7


@dataclass(frozen=True)
class LMState(Generic[AnyPoint]):
    """Where a Levenberg-Marquardt run stands: everything that its next step depends on.

    Attributes:
        point: the unknowns, evaluated.
        damping: of the next step.
        steps: tried so far.
        losses: at the start and after every step.
        rejections: rejected steps in a row.
    """

    point: AnyPoint
    damping: float
    steps: int = 0
    losses: tuple[float, ...] = ()
    rejections: int = 0

    @classmethod
    def at(cls, point: AnyPoint, damping: float = Damping.start) -> LMState[AnyPoint]:
        """The state before the first step."""
        return cls(point, damping, losses=(point.loss,))


@dataclass(frozen=True)
class StoppingRule:
    """When a Levenberg-Marquardt run ends.

    Attributes:
        max_steps: at most.
        tolerance: relative residual (the root of the loss) that is small enough.
        window, max_left: the run also ends if more than this share of the loss is left after the last `window` steps.
    """

    max_steps: int
    tolerance: float = 1e-6
    window: int | None = None
    max_left: float = 0.7

    def is_over(self, state: LMState[Any]) -> bool:
        """Whether a run ends here: enough steps, a small or a stalled residual, or too many rejections in a row."""
        residual = math.sqrt(state.point.loss)
        allowed = _REJECTIONS_NEAR_FLOOR if residual < _NEAR_FLOOR else _REJECTIONS
        if state.steps >= self.max_steps or not residual >= self.tolerance or state.rejections > allowed:
            return True
        stalled = self.window is not None and state.steps >= self.window
        return stalled and state.losses[-1] > self.max_left * state.losses[-1 - (self.window or 0)]


def gauss_newton_step(
    equation: Equation[AnyPoint], point: AnyPoint, damping: float, norms: Norms, cg: CGOptions
) -> tuple[torch.Tensor, float]:
    """Solves (J^T P J + damping diag(H)) D = J^T P Theta over tangent D; returns D and the predicted fall of the loss.

    H holds the mean diagonal of J^T P J of every row.
    """
    system = equation.normal_system(point, damping, norms)
    solution, rest = conjugate_gradient(system.apply, system.rhs, system.precondition, cg, system.agree)
    return system.to_rows(solution), predicted_decrease(system, solution, rest) / equation.squared_norm


def predicted_decrease(system: NormalSystem, solution: torch.Tensor, rest: torch.Tensor) -> float:
    """How far ||P Theta||^2 falls by a step if the equation is linear; `rest` is what the solution leaves of `rhs`."""
    step = system.to_rows(solution)
    return float((solution * (system.rhs + rest)).sum() + (system.ridge * step * step).sum())


def lm_step(
    equation: Equation[AnyPoint],
    state: LMState[AnyPoint],
    norms: Norms,
    cg: CGOptions | None = None,
    least_damping: float = Damping.least,
) -> LMState[AnyPoint]:
    """One tested step: the loss falls, or the unknowns stay and the damping rises.

    The damping falls or rises smoothly with the share of the predicted fall that came true (Nielsen 1999).
    """
    point = state.point
    # The lines of `gauss_newton_step`, so that one call fewer lies between an attack and its matrix products.
    system = equation.normal_system(point, state.damping, norms)
    solution, rest = conjugate_gradient(system.apply, system.rhs, system.precondition, cg or CGOptions(), system.agree)
    predicted = predicted_decrease(system, solution, rest) / equation.squared_norm
    tried = equation.at(norms.retract(point.rows + system.to_rows(solution), point.num_samples))
    steps = state.steps + 1
    if tried.loss < point.loss:
        gain = min((point.loss - tried.loss) / max(predicted, 1e-300), 1.0)
        damping = max(least_damping, state.damping * max(0.2, 1 - (2 * gain - 1) ** 3))
        return LMState(tried, damping, steps, (*state.losses, tried.loss))
    damping = state.damping * _FIRST_RAISE * 2**state.rejections
    return LMState(point, damping, steps, (*state.losses, point.loss), state.rejections + 1)


def levenberg_marquardt(
    equation: Equation[AnyPoint],
    start: torch.Tensor,
    norms: Norms,
    rule: StoppingRule,
    *,
    cg: CGOptions | None = None,
    damping: Damping | None = None,
    should_stop: Callable[[AnyPoint], bool] = lambda point: False,
) -> LMState[AnyPoint]:
    """Minimises ||P Theta||^2 over the unknowns from `start` (n + j, d), every step tested.

    Near the floating-point floor no step can lower the loss: there the first rejection ends the run.

    Args:
        should_stop: called after every accepted step.

    Returns:
        The last state; its `point` holds the unknowns.
    """
    damping = damping or Damping()
    state = LMState.at(equation.at(start), damping.start)
    while not rule.is_over(state):
        before, state = state, lm_step(equation, state, norms, cg, damping.least)
        if state.point is not before.point and should_stop(state.point):
            break
    return state
