"""The law's own attack: momentum descent on L(X) = ||P_perp theta||^2, Eq. (11), to the letter of appendix D."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch

from exhume.attacks.base import Attack, Problem, ProgressEvent, Proposal
from exhume.errors import InputError
from exhume.reconstruction import Stop
from exhume.solvers import DescentState, descend
from exhume.target import Target

# Appendix D: "2 10^3 for the CIFAR-10 experiments", "8 10^3" on Tiny-ImageNet, "20 for [...] synthetic data".
# Both image figures are the same number per input coordinate.
IMAGE_STEP_PER_COORDINATE = 2000 / 3072
VECTOR_STEP = 20.0
# History keeps a point whenever the step count has grown by this factor.
_HISTORY_GROWTH = 1.02


@dataclass(frozen=True)
class Descent(Attack):
    """Gaussian start, gradient descent with momentum, rows renormalised to sqrt(d) after every step.

    Attributes:
        step_size: None takes the paper's: 20 for vectors, 2000 at d = 3072 and 8000 at d = 12288 for images.
        momentum: 0.9 in the paper.
        tolerance: stop at this normalised loss ||P_perp theta||^2 / ||theta||^2.
        max_steps: the cap of appendix E.3.
        inactive_slope: the authors' code gives inactive ReLUs this slope in the backward pass; 0 is the true gradient.

    Examples:
        >>> import exhume
        >>> from exhume import data
        >>> sphere = data.load("sphere", dim=8, samples=4)
        >>> victim = exhume.RandomFeatures(num_features=200).fit(sphere.inputs, sphere.labels)
        >>> result = exhume.Descent(max_steps=100)(victim.target(), num_samples=4)
        >>> result.stop.value, result.history["loss"][-1] < result.history["loss"][0]
        ('step_limit', True)
    """

    name: ClassVar[str] = "descent"
    can_be_sharded: ClassVar[bool] = True

    step_size: float | None = None
    momentum: float = 0.9
    tolerance: float = 1e-7
    max_steps: int = 60_000
    inactive_slope: float = 0.02

    def __post_init__(self) -> None:
        if self.step_size is not None and not self.step_size > 0:
            raise InputError(f"step_size must be positive, got {self.step_size}")
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum must be in [0, 1), got {self.momentum}")
        if self.max_steps < 0 or self.tolerance < 0 or self.inactive_slope < 0:
            raise InputError("max_steps, tolerance and inactive_slope must not be negative")

    def run(self, problem: Problem) -> Proposal:
        """Descends until the loss is below the tolerance, the steps or the passes are spent."""
        target, features = problem.target, problem.features
        span = problem.span(inactive_slope=self.inactive_slope)
        state, history = self._start(problem)
        reason = Stop.CONVERGED

        def loss_and_gradient(samples: torch.Tensor) -> tuple[float, Callable[[], torch.Tensor]]:
            point = span.at(samples)
            return point.loss, lambda: span.gradient(point).mul_(-2 / span.squared_norm)

        def keep_going(state: DescentState, loss: float) -> bool:
            nonlocal reason
            if is_noted(state.step):
                for name, value in (("step", state.step), ("loss", loss), ("passes", features.ledger.passes)):
                    history[name].append(float(value))
                problem.progress(ProgressEvent(state.step, self.max_steps, loss, features.ledger.passes))
            ends = {
                Stop.DIVERGED: not math.isfinite(loss),
                Stop.CONVERGED: loss <= self.tolerance,
                Stop.STEP_LIMIT: state.step >= self.max_steps,
            }
            ended = next((why for why, holds in ends.items() if holds), problem.spent())
            if ended is not None:
                reason = ended
                return False
            # The forward pass just made is made again after a resume, so it is not yet in the saved count.
            problem.checkpoint.save_if_due(
                lambda: (
                    {"samples": state.samples, "velocity": state.velocity},
                    {
                        "step": state.step,
                        "work": features.ledger.work - state.samples.shape[0] * features.num_features,
                        "history": history,
                    },
                )
            )
            return True

        loss = descend(
            loss_and_gradient,
            state,
            step_size=self.step_size or paper_step_size(target),
            momentum=self.momentum,
            radius=problem.radius,
            keep_going=keep_going,
        )
        problem.progress(ProgressEvent(state.step, state.step, loss, features.ledger.passes))
        signs = target.features.symmetry.signs_identified
        notes = ["Norms: every sample is kept at norm sqrt(d), so only directions are recovered."]
        if not signs:
            notes.append("Signs: the descent leaves them open for this activation; compare up to sign.")
        return Proposal(
            samples=state.samples,
            stop=reason,
            steps=state.step,
            signs_determined=signs,
            norms_determined=False,
            history=history,
            notes=tuple(notes),
        )

    def _start(self, problem: Problem) -> tuple[DescentState, dict[str, list[float]]]:
        saved = problem.checkpoint.load()
        dtype, device = problem.features.dtype, problem.features.device
        if saved is None:
            assert problem.num_samples is not None  # the base asks for it
            shape = (problem.num_samples, problem.features.input_dim)
            # Drawn in float32 on the CPU, so that the start is the same in every precision and on every device.
            samples = torch.randn(shape, generator=problem.generator).to(device, dtype)
            return DescentState(samples, torch.zeros_like(samples)), {"step": [], "loss": [], "passes": []}
        tensors, numbers = saved
        problem.features.ledger.work = int(numbers["work"])
        state = DescentState(
            tensors["samples"].to(device, dtype), tensors["velocity"].to(device, dtype), int(numbers["step"])
        )
        history = {name: [float(value) for value in column] for name, column in numbers["history"].items()}
        if history["step"] and history["step"][-1] >= state.step:
            history = {name: column[:-1] for name, column in history.items()}
        return state, history


def paper_step_size(target: Target) -> float:
    """The paper's step size for a target: by input dimension for images, one figure for plain vectors."""
    if len(target.input_shape) == 1:
        return VECTOR_STEP
    return IMAGE_STEP_PER_COORDINATE * target.features.input_dim


def is_noted(step: int) -> bool:
    """Whether a step belongs into the history: steps 0 and 1, then a geometric sequence."""
    if step < 2:
        return True
    return int(math.log(step) / math.log(_HISTORY_GROWTH)) != int(math.log(step - 1) / math.log(_HISTORY_GROWTH))
