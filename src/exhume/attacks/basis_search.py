"""The search of the exact attack where inputs are many and samples few: Gauss-Newton inside a small basis that grows.

The samples span n of d dimensions. Every step adds their gradients and the strongest second moments of the residual to
the current rows and the last move, about 3n directions, and solves there: on V B^T a pass costs r/d of a full one, and
few coordinates determine r n unknowns. What is left is about two full passes a step, gradient and new directions, each
step worth one of conjugate gradients on the whole equation: near the samples the residual falls by sqrt(dn/p).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch

from exhume.attacks.base import Problem
from exhume.attacks.search import FOUND, Outcome, drop_rows
from exhume.attacks.spectral import random_rows, spectral_rows, strongest_output
from exhume.attacks.working import HERMITE_ZERO
from exhume.features import CountedFeatures
from exhume.features.counted import CountedLinearisation
from exhume.features.growing_basis import GrowingBasis
from exhume.solvers import Inner, Patience, levenberg_marquardt, onto_sphere
from exhume.span import Span

# A basis pays where it is small: inputs per sample, and inputs, at least.
_DIMS_PER_SAMPLE, _DIMS = 10, 256
# All constants below were chosen on CIFAR-10 at 16 x 16, n = 30 and 60, p = 2.5 and 3dn.
STEPS = 150
_FIRST_DIRECTIONS = 1.5  # in samples: how many spectral directions the first basis has
# Spare rows, and the residual down to which there are some: of the first phase, and as a share of where one began.
_SPARE_SHARE, _SPARE_ABOVE, _SPARE_FALL = 0.12, 5e-4, 0.2
# Equations per unknown for a solve inside the basis: so many times (d/n)^2, which keeps such solves as cheap as full
# passes are, between two limits.
_EQUATIONS, _FEWEST_EQUATIONS, _MOST_EQUATIONS = 0.004, 3.0, 15.0
# A step that leaves more than this share of the least residual has stalled. So many of them end a phase, and so many
# phases, with spare rows and without in turn, end the search.
_STALLED, _STALLS, _PHASES = 0.93, 3, 6
_SOLVE, _WIDE = Patience(2, 1e-7, window=2, fall=0.9), Patience(3, 1e-7, window=3, fall=0.95)
_INNER = Inner(5, 0.1)
# Residual above which V may be read in half precision, where it does not fit the budget otherwise.
_ROUNDED_ABOVE = 1e-2
_NOTHING = torch.empty(0), torch.empty(0)


def fits(problem: Problem, count: int) -> bool:
    """Whether so many samples span few of the input's dimensions, so that a search in a small basis pays.

    Not where norms are to be found too: there samples were found less often than by subsets of coordinates. Nor where
    second moments do not know the samples.
    """
    dim, known = problem.features.input_dim, problem.target.knowledge.known_samples
    blind = abs(float(problem.features.activation.hermite(2)[2])) < HERMITE_ZERO
    return dim >= max(_DIMS, _DIMS_PER_SAMPLE * count) and not (problem.norms_open or known or blind)


_NUMBERS = ("step", "residual", "enough", "stalls", "phase")  # of a state, beside its best residual


@dataclass
class BasisState:
    """Everything that the next step depends on; the basis itself is made anew from it."""

    rows: torch.Tensor
    moved: torch.Tensor  # the last step's move of the rows
    generator: torch.Generator
    step: int = 0
    residual: float = 1.0
    best: float = math.inf  # least residual of this phase
    enough: float = _SPARE_ABOVE  # residual at which a phase with spare rows is over
    stalls: int = 0
    phase: int = 1  # odd ones have spare rows
    start: ClassVar[int] = 1  # there is no other

    @property
    def spare(self) -> bool:
        """Whether there are more rows than samples, for those that hide in the residual."""
        return self.phase % 2 == 1

    def save(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Tensors and numbers for a checkpoint."""
        tensors = {"rows": self.rows, "moved": self.moved, "generator": self.generator.get_state()}
        best = self.best if math.isfinite(self.best) else None
        return tensors, {name: getattr(self, name) for name in _NUMBERS} | {"best": best}

    @classmethod
    def load(cls, tensors: dict[str, torch.Tensor], numbers: dict[str, Any], device: torch.device) -> BasisState:
        """The state that `save` wrote."""
        generator = torch.Generator()
        generator.set_state(tensors["generator"])
        state = cls(tensors["rows"].to(device), tensors["moved"].to(device), generator)
        for name in _NUMBERS:
            setattr(state, name, numbers[name])
        state.best = math.inf if numbers["best"] is None else numbers["best"]
        return state


class BasisSearch:
    """Looks for `count` samples that solve the span equation.

    Args:
        span: the equation, over a counted feature map of the form act(V x); a free linear part is solved for jointly.
        count: how many samples.
        radius: norm of the samples.
        keep_going: asked before every step.
    """

    def __init__(
        self,
        span: Span,
        count: int,
        *,
        radius: float,
        keep_going: Callable[[BasisState], bool],
    ) -> None:
        assert isinstance(span.features, CountedFeatures)
        self.span, self.count, self._features = span, count, span.features
        self.radius, self._keep_going = radius, keep_going
        self._seen = _NOTHING  # cotangents of the samples and of the linear part, and the residual
        # Of any process: they change precision together, and their parts of V are not of one size.
        self._rounded = bool(self._features.coordinates.sum(torch.tensor(float(not self._features.is_kept))))
        self._read = self._features.kept_as_it_fits(torch.float16)
        balanced = _EQUATIONS * (span.features.input_dim / count) ** 2
        self._spare = max(3, math.ceil(_SPARE_SHARE * count))
        self._equations = max(_FEWEST_EQUATIONS, min(_MOST_EQUATIONS, balanced))

    def begin(self, generator: torch.Generator) -> BasisState:
        """Spectral rows, some more than there are samples, solved in their own span."""
        wanted = math.ceil(_FIRST_DIRECTIONS * self.count) + self._spare
        early = self.span.over(self._read)
        found = spectral_rows(self._read, early.without_nuisance(), wanted, generator, sweeps=1, spare=0)
        rows = onto_sphere(found, self.radius)
        if early.num_linear:
            rows = torch.cat([rows, early.first_linear()])
        basis = GrowingBasis(self._read, rows)
        state = BasisState(rows, found[:0], generator)
        state.rows = self._solve(basis, rows, self.count + self._spare, state, _WIDE)
        return state

    def run(self, state: BasisState) -> Outcome:
        """Searches until the residual collapses or does not fall any more."""
        if state.residual < _ROUNDED_ABOVE:
            self._round_no_more()
        basis = GrowingBasis(self._read, torch.cat([state.rows, state.moved]))
        while self._keep_going(state):
            if self._rounded and state.residual < _ROUNDED_ABOVE:
                del basis  # and with it what is kept of V: half and single precision together are over the budget
                self._round_no_more()
                basis = GrowingBasis(self._read, torch.cat([state.rows, state.moved]))
            self._look(state, basis)
            if state.residual < FOUND and self._samples_of(state.rows) == self.count:
                return Outcome(state.rows, True, False, state.start, state.step)
            self._judge(state)
            if state.phase > _PHASES or state.step >= STEPS:
                break
            self._step(state, basis)
        return Outcome(self._without_spare(state, basis), False, False, state.start, state.step)

    def _round_no_more(self) -> None:
        self._read, self._rounded = self._features.kept_as_it_fits(), False

    def _judge(self, state: BasisState) -> None:
        """Whether the phase is over: with spare rows when little is left, with or without when it has stalled."""
        state.stalls = state.stalls + 1 if state.residual > _STALLED * state.best else 0
        state.best = min(state.best, state.residual)
        done = state.spare and state.residual < state.enough
        if done or state.stalls >= _STALLS:
            state.enough = min(state.enough, _SPARE_FALL * state.best)
            state.phase, state.stalls, state.best = state.phase + 1, 0, math.inf

    def _look(self, state: BasisState, basis: GrowingBasis) -> None:
        """Evaluates the equation at the rows, and keeps of it what the next step needs."""
        point = self._inside(basis).at(basis.lower(state.rows))
        state.residual = math.sqrt(point.loss)
        slopes = cast(CountedLinearisation, point.at).slopes[: point.num_samples]
        cotangents = slopes * (point.coefficients @ point.residual)
        if self.span.num_linear:
            cotangents = torch.cat([cotangents, point.residual])
        self._seen = (cotangents, point.residual)

    def _step(self, state: BasisState, basis: GrowingBasis) -> None:
        """New directions for the basis, and the rows solved for in it."""
        rows, samples, goal = state.rows, self._samples_of(state.rows), self.count + self._spare * state.spare
        cotangents, residual = self._seen
        gradient, images = self._directions(basis, state, cotangents, residual)
        del cotangents
        basis.renew(torch.cat([rows, state.moved]), torch.cat([gradient, images]))
        hidden = self._hidden_rows(basis, images, residual) if state.spare else images
        del residual
        self._seen = _NOTHING
        if samples + len(hidden) > goal:
            wide = torch.cat([rows[:samples], hidden, rows[samples:]])
            state.rows = self._solve(basis, wide, goal, state, _WIDE)
        solved = self._solve(basis, state.rows, goal, state, _SOLVE)
        # Where rows were exchanged, their move leads back to the old ones, which stay in the basis so.
        state.moved = solved - rows if solved.shape == rows.shape else rows
        state.rows, state.step = solved, state.step + 1

    def _without_spare(self, state: BasisState, basis: GrowingBasis) -> torch.Tensor:
        """The rows cut down to `count` samples."""
        return self._solve(basis, state.rows, self.count, state, _SOLVE)

    def _directions(
        self, basis: GrowingBasis, state: BasisState, cotangents: torch.Tensor, residual: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of the samples and of the linear part in the whole space, and where else samples may hide.

        The latter are images of random rows under the residual's second moments, one for every spare row. One read of
        V, one pass and a little.
        """
        if not state.spare:
            return basis.whole.pull_back(cotangents), state.rows[:0]
        probes = random_rows(self._spare, self._features.input_dim, state.generator, self._features)
        weights = strongest_output(residual, self._features)
        mean = float(self._features.coordinates.sum(weights.sum())) / self._features.input_dim
        gradient, images = basis.whole.pull_back_and_moment(cotangents, probes, weights)
        return gradient, images - mean * probes

    def _hidden_rows(self, basis: GrowingBasis, images: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Rows along the residual's second moments in the span of such images."""
        inside = self._features.coordinates.lead(torch.linalg.qr(basis.lower(images).T)[0].T.contiguous())
        moment = inside @ basis.features.weighted_moment(inside, strongest_output(residual, self._features)).T
        _, turned = torch.linalg.eigh((moment + moment.T) / 2)
        return onto_sphere(basis.lift(turned.T @ inside), self.radius)

    def _inside(self, basis: GrowingBasis) -> Span:
        """The equation for samples in the span of the basis."""
        return self.span.over(basis.features)

    def _solve(
        self, basis: GrowingBasis, rows: torch.Tensor, goal: int, state: BasisState, patience: Patience
    ) -> torch.Tensor:
        """Levenberg-Marquardt in the basis, on as many coordinates as it takes, and down to `goal` samples."""
        samples = self._samples_of(rows)
        inside = self._inside(basis).subset(self._draw(self._equations * basis.rank * samples, state.generator))
        radius = self.radius * math.sqrt(basis.rank / self._features.input_dim)
        lowered = basis.lower(rows)
        lowered = torch.cat([onto_sphere(lowered[:samples], radius), lowered[samples:]])
        point = levenberg_marquardt(inside, lowered, patience, radius=radius, inner=_INNER)
        return basis.lift(drop_rows(point, goal))

    def _samples_of(self, rows: torch.Tensor) -> int:
        """How many of the rows are samples, and not of the linear part."""
        return rows.shape[0] - self.span.num_linear

    def _draw(self, equations: float, generator: torch.Generator) -> slice:
        """A random window of so many coordinates, or all."""
        width = self._features.num_features
        size = min(width, math.ceil(equations / self.span.num_outputs))
        first = int(torch.randint(0, width - size + 1, (1,), generator=generator))
        return slice(first, first + size)
