"""Gradient descent with momentum on a product of spheres, as in the paper's appendix D."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from exhume.solvers.sphere import onto_sphere


@dataclass
class DescentState:
    """Where a descent stands: everything that the next step depends on.

    Attributes:
        samples: X (n, d).
        velocity: the momentum buffer (n, d).
        step: updates done so far.
    """

    samples: torch.Tensor
    velocity: torch.Tensor
    step: int = 0


def descend(
    loss_and_gradient: Callable[[torch.Tensor], tuple[float, Callable[[], torch.Tensor]]],
    state: DescentState,
    *,
    step_size: float,
    momentum: float,
    radius: float,
    keep_going: Callable[[DescentState, float], bool],
) -> float:
    """Minimises a loss over rows of norm `radius`: v <- momentum v + g, x <- x - step v, x <- radius x / ||x||.

    The first update starts from the rows as they are given (the paper's Gaussian start is not normalised), and the
    gradient is not made tangent: both as in appendix D.

    Args:
        loss_and_gradient: the loss at X and a function that computes its gradient there.
        state: start; it is advanced in place, so that a checkpoint of it resumes the same trajectory.
        keep_going: asked before every update with the state and its loss; False ends the descent.

    Returns:
        The loss at `state.samples`.
    """
    while True:
        loss, gradient = loss_and_gradient(state.samples)
        if not keep_going(state, loss):
            return loss
        state.velocity.mul_(momentum).add_(gradient())
        state.samples = onto_sphere(state.samples.sub(state.velocity, alpha=step_size), radius)
        state.step += 1
