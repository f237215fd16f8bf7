"""The law's own attack: momentum descent on L(X) = ||P_perp theta||^2, Eq. (11), to the letter of appendix D."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch

from exhume.attacks._base.attack import Attack
from exhume.attacks._base.problem import Problem, Proposal
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import NOT_SAVED, Search, SearchResult, Where, is_recorded
from exhume.equation.span import SpanPoint
from exhume.errors import InputError
from exhume.results.stop import Stop
from exhume.solvers import sphere_descent_step
from exhume.target.target import Target

# Appendix D: "2 10^3 for the CIFAR-10 experiments", "8 10^3" on Tiny-ImageNet, "20 for [...] synthetic data".
# Both image figures are the same number per input coordinate.
IMAGE_STEP_PER_COORDINATE = 2000 / 3072
VECTOR_STEP = 20.0


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
    reads_head_only: ClassVar[bool] = True

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

    def run(self, problem: Problem, session: Session) -> Proposal:
        """Descends until the loss is below the tolerance, the steps or the budget are spent."""
        found = session.run_stage(_DescentSearch(self, problem))
        signs = problem.features.symmetry.signs_identified
        notes = {"norms": "Norms: every sample is kept at norm sqrt(d), so only directions are recovered."}
        if not signs:
            notes["signs"] = "Signs: the descent leaves them open for this activation; compare up to sign."
        return Proposal(found.rows, found.stop, signs_determined=signs, norms_determined=False, notes=notes)


@dataclass(frozen=True)
class _DescentState:
    samples: torch.Tensor
    velocity: torch.Tensor
    step: int = 0
    point: SpanPoint | None = field(default=None, metadata=NOT_SAVED)

    @property
    def loss(self) -> float:
        """||P_perp theta||^2 / ||theta||^2."""
        assert self.point is not None
        return self.point.loss


class _DescentSearch(Search[_DescentState]):
    state_type = _DescentState

    def __init__(self, attack: Descent, problem: Problem) -> None:
        assert problem.num_samples is not None  # the base asks for it
        self.problem, self.count, self._attack = problem, problem.num_samples, attack
        self._equation = problem.equation(inactive_slope=attack.inactive_slope)
        self._step_size = attack.step_size or paper_step_size(problem.target)

    def begin(self, generator: torch.Generator) -> _DescentState:
        """Gaussian samples."""
        features = self.problem.features
        # Drawn in float32 on the CPU, so that the start is the same in every precision and on every device.
        samples = torch.randn((self.count, features.input_dim), generator=generator).to(features.device, features.dtype)
        return self.restore(_DescentState(samples, torch.zeros_like(samples)))

    def restore(self, state: _DescentState) -> _DescentState:
        """Evaluates the samples."""
        return replace(state, point=self._equation.at(state.samples))

    def where(self, state: _DescentState) -> Where:
        """Steps made."""
        return Where(state.step, self._attack.max_steps, state.loss, is_recorded(state.step))

    def finished(self, state: _DescentState) -> Stop | None:
        """By divergence, tolerance or the number of steps."""
        ends = {
            Stop.DIVERGED: not math.isfinite(state.loss),
            Stop.CONVERGED: state.loss <= self._attack.tolerance,
            Stop.STEP_LIMIT: state.step >= self._attack.max_steps,
        }
        return next((why for why, holds in ends.items() if holds), None)

    def advance(self, state: _DescentState, session: Session) -> _DescentState:
        """One step down the gradient."""
        assert state.point is not None
        gradient = self._equation.gradient(state.point).mul_(-2 / self._equation.squared_norm)
        samples, velocity = sphere_descent_step(
            state.samples,
            state.velocity,
            gradient,
            step_size=self._step_size,
            momentum=self._attack.momentum,
            sphere=self.problem.sphere,
        )
        return self.restore(_DescentState(samples, velocity, state.step + 1))

    def give_up(self, state: _DescentState, stop: Stop, session: Session) -> SearchResult:
        """The samples as they are."""
        return SearchResult(state.samples, self.count, stop, self.problem, 1, state.step)


def paper_step_size(target: Target) -> float:
    """The paper's step size for a target: by input dimension for images, one figure for plain vectors."""
    if len(target.input_shape) == 1:
        return VECTOR_STEP
    return IMAGE_STEP_PER_COORDINATE * target.features.input_dim
