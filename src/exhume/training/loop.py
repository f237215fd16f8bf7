"""The training loop: steps until the loss is small, the weights no longer change, or the loss grows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from exhume.errors import InputError
from exhume.support.checkpoint import Checkpoint
from exhume.support.randomness import generator_for
from exhume.support.validation import positive_number, whole_number
from exhume.training.losses import Loss
from exhume.training.trajectory import Trajectory

Progress = Callable[[int, int, float], None]

# A run has diverged if its loss is so many times that of the start, or of outputs of zero.
_DIVERGED = 1e3
# A monotone run has diverged if its loss rises by more than this share between two checks, unless the loss is below
# this share of the start's, where rounding makes it rise.
_RISE = 1e-2
_ROUNDING = 1e-5
# Gradient descent on a quadratic is stable up to a step of 2 / (largest curvature); this share of it is taken. On
# CIFAR-10 (two-layer, n = 10) more is monotone too, but leaves the path of small steps: the true data's residual in
# the span equation grows from 0.0075 to 0.0079 with this share, to 0.0083 with 0.5 and to 0.0095 with 0.85.
_STABLE_SHARE = 0.25
_POWER_ITERATIONS = 20


class DivergedError(Exception):
    """The loss grew, or no neuron is active any more; the message gives the number of steps."""


@dataclass(frozen=True)
class Plan:
    """How to train, checked.

    Attributes:
        loss: which loss.
        targets: (n, k).
        step_size: of every step.
        max_steps: at most so many.
        tolerance: stop below this loss; with weight decay, when a step changes the head by less than this share of
            what the decay alone would.
        weight_decay: of every weight.
        monotone: whether any rise of the loss counts as divergence.
    """

    loss: Loss
    targets: Tensor
    step_size: float
    max_steps: int
    tolerance: float
    weight_decay: float
    monotone: bool = False

    def __post_init__(self) -> None:
        positive_number("step_size", self.step_size)
        whole_number("max_steps", self.max_steps)
        for name, value in (("tolerance", self.tolerance), ("weight_decay", self.weight_decay)):
            if not 0 <= value < math.inf:
                raise InputError(f"{name} is {value}; valid: a number of at least 0")

    def value(self, outputs: Tensor) -> float:
        """The loss of outputs (n, k)."""
        return float(self.loss.value(outputs, self.targets))


@dataclass(frozen=True)
class Place:
    """How far a run is: its step, and the loss that it must stay well below."""

    step: int
    reference: float

    @classmethod
    def start(cls, trajectory: Trajectory, plan: Plan) -> Place:
        """The start: the reference is the loss there, or that of outputs of zero if this is larger."""
        at_zero = plan.value(torch.zeros_like(trajectory.outputs))
        return cls(0, max(plan.value(trajectory.outputs), at_zero))


def follow(
    trajectory: Trajectory, plan: Plan, place: Place, checkpoint: Checkpoint, progress: Progress | None
) -> tuple[int, float, bool]:
    """Trains until the tolerance or the limit of steps; returns steps, loss, and whether the tolerance was reached."""
    step, loss, still = place.step, plan.value(trajectory.outputs), False
    head = trajectory.head() if plan.weight_decay else None
    while not still and step < plan.max_steps and not (head is None and loss < plan.tolerance):
        every = trajectory.check_every
        count = min(every - step % every, plan.max_steps - step)
        trajectory.advance(count, plan.step_size)
        step, before, loss = step + count, loss, plan.value(trajectory.outputs)
        _check_health(trajectory, plan, place, step, before, loss)
        if head is not None:
            last, head = head, trajectory.head()
            by_decay = count * plan.step_size * plan.weight_decay * float(head.norm())
            still = float((head - last).norm()) <= plan.tolerance * by_decay
        if checkpoint.due:
            numbers = {"step": step, "reference": place.reference, "step_size": plan.step_size}
            checkpoint.save(trajectory.state(), {**numbers, "decay": trajectory.decay})
        if progress is not None:
            progress(step, plan.max_steps, loss)
    return step, loss, still or (head is None and loss < plan.tolerance)


def _check_health(trajectory: Trajectory, plan: Plan, place: Place, step: int, before: float, loss: float) -> None:
    """Raises if the loss has grown too much, or if all outputs are exactly zero: no neuron is active any more."""
    limit = _DIVERGED * place.reference
    if plan.monotone and before > _ROUNDING * place.reference:
        limit = min(limit, (1 + _RISE) * before)
    if not math.isfinite(loss) or loss > limit:
        raise DivergedError(f"the loss is {loss:.3g} after {step} steps, and was {place.reference:.3g}")
    if not bool(trajectory.outputs.any()):
        raise DivergedError(f"no neuron is active any more after {step} steps")


def stable_step(trajectory: Trajectory, loss: Loss, weight_decay: float) -> float:
    """A step at which gradient descent from here is stable: a quarter of 2 / (largest curvature of the loss).

    The curvature is that of the linearised network, its tangent kernel's largest eigenvalue times the loss's own; the
    eigenvalue is found by power iteration.
    """
    num_samples, num_outputs = trajectory.outputs.shape
    directions = torch.randn((num_samples, num_outputs), generator=generator_for(0, "tangent kernel"))
    directions = directions.to(trajectory.outputs)
    eigenvalue = 0.0
    for _ in range(_POWER_ITERATIONS):
        directions = trajectory.kernel_times(directions / directions.norm())
        eigenvalue = float(directions.norm())
    return 2 * _STABLE_SHARE / (eigenvalue * loss.largest_curvature(num_samples, num_outputs) + weight_decay)
