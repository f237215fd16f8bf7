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
from typing import Any, cast

import torch

from exhume.attacks.search import FOUND, NORMS, Outcome, drop_rows
from exhume.attacks.spectral import random_rows, spectral_rows
from exhume.features import CountedFeatures
from exhume.features.counted import CountedLinearisation
from exhume.features.growing_basis import GrowingBasis
from exhume.solvers import Inner, Patience, bounded, levenberg_marquardt, onto_sphere
from exhume.span import Point, Span

# A basis pays where it is small: inputs per sample, and inputs, at least.
_DIMS_PER_SAMPLE, _DIMS = 10, 256
# All constants below were chosen on CIFAR-10 at 16 x 16, n = 30 and 10, p = 3dn, and on the sphere d = 768, n = 20.
STEPS = 120
_FIRST_DIRECTIONS, _FIRST_ROWS = 1.5, 1.3  # in samples: how many spectral directions and rows the first basis has
_HIDDEN_SHARE, _HIDDEN_ABOVE = 0.12, 2e-3  # rows for hidden samples, and the residual down to which they are added
# Equations per unknown for a solve inside the basis: so many times (d/n)^2, which keeps such solves as cheap as full
# passes are, between two limits; more where the search has stalled.
_EQUATIONS, _FEWEST_EQUATIONS, _MOST_EQUATIONS, _STALLED_EQUATIONS = 0.004, 3.0, 15.0, 3.0
_STALLED, _MOST_STALLS = 0.85, 4
_SOLVE, _WIDE = Patience(2, 1e-7, window=2, fall=0.9), Patience(3, 1e-7, window=3, fall=0.95)
_WIDE_STALLED = Patience(10, 1e-7, window=5)
_INNER, _INNER_STALLED = Inner(5, 0.1), Inner(10, 0.1)


def fits(dim: int, count: int) -> bool:
    """Whether so many samples span few of the input's dimensions, so that a search in a small basis pays."""
    return dim >= max(_DIMS, _DIMS_PER_SAMPLE * count)


@dataclass
class BasisState:
    """Everything that the next step depends on; the basis itself is made anew from it."""

    rows: torch.Tensor
    moved: torch.Tensor  # the last step's move of the rows
    generator: torch.Generator
    step: int = 0
    residual: float = 1.0
    stalls: int = 0
    free: bool = False
    start: int = 1

    def save(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Tensors and numbers for a checkpoint."""
        tensors = {"rows": self.rows, "moved": self.moved, "generator": self.generator.get_state()}
        numbers = {"step": self.step, "residual": self.residual, "stalls": self.stalls, "free": self.free}
        return tensors, numbers

    @classmethod
    def load(cls, tensors: dict[str, torch.Tensor], numbers: dict[str, Any], device: torch.device) -> BasisState:
        """The state that `save` wrote."""
        generator = torch.Generator()
        generator.set_state(tensors["generator"])
        rows, moved = tensors["rows"].to(device), tensors["moved"].to(device)
        return cls(rows, moved, generator, numbers["step"], numbers["residual"], numbers["stalls"], numbers["free"])


class BasisSearch:
    """Looks for `count` samples that solve the span equation.

    Args:
        span: the equation, over a counted feature map of the form act(V x); a free linear part is solved for jointly.
        count: how many samples.
        spectral: whether second moments know the samples (not for odd activations).
        radius: norm of the samples, or where to begin to look for it.
        free_norms: whether the norms are unknown too: they are freed where the search stalls with equal ones.
        keep_going: asked before every step.
    """

    def __init__(
        self,
        span: Span,
        count: int,
        *,
        spectral: bool,
        radius: float,
        free_norms: bool,
        keep_going: Callable[[BasisState], bool],
    ) -> None:
        assert isinstance(span.features, CountedFeatures)
        self.span, self.count, self._features = span, count, span.features
        self._spectral, self.radius, self._free_norms, self._keep_going = spectral, radius, free_norms, keep_going
        balanced = _EQUATIONS * (span.features.input_dim / count) ** 2
        self._equations = max(_FEWEST_EQUATIONS, min(_MOST_EQUATIONS, balanced))

    def begin(self, generator: torch.Generator) -> BasisState:
        """Spectral rows, more than there are samples, solved in their own span and cut down to `count`."""
        dim = self._features.input_dim
        if not self._spectral:
            rows = self._with_linear(random_rows(self.count, dim, generator, self._features))
            return BasisState(rows, rows[:0], generator)
        wanted = min(dim // 2, math.ceil(_FIRST_DIRECTIONS * self.count))
        found = spectral_rows(self._features, self.span.without_nuisance(), wanted, generator, sweeps=1, spare=0)
        basis = GrowingBasis(self._features, self._with_linear(found))
        more = found[: max(self.count, min(wanted, math.ceil(_FIRST_ROWS * self.count)))]
        state = BasisState(self._with_linear(more), found[:0], generator)
        state.rows = self._solve(basis, state.rows, state, _WIDE)
        return state

    def run(self, state: BasisState) -> Outcome:
        """Searches until the residual collapses or does not fall any more."""
        basis = GrowingBasis(self._features, torch.cat([state.rows, state.moved]))
        while self._keep_going(state):
            inside = self._inside(basis)
            point = inside.at(basis.lower(state.rows))
            residual = math.sqrt(point.loss)
            if residual < FOUND:
                return Outcome(state.rows, True, False, state.start, state.step)
            stalled = state.step > 0 and residual > _STALLED * state.residual
            state.stalls = state.stalls + 1 if stalled else max(0, state.stalls - 1)
            state.residual = residual
            if state.stalls > _MOST_STALLS or state.step >= STEPS:
                if state.free or not self._free_norms:
                    break
                state.free, state.stalls = True, 0
            self._step(state, basis, point)
        return Outcome(state.rows, False, False, state.start, state.step)

    def _step(self, state: BasisState, basis: GrowingBasis, point: Point) -> None:
        """New directions for the basis, and the rows solved for in it."""
        hidden = self._hidden_rows(state, point)
        rows = state.rows
        basis.renew(torch.cat([rows, state.moved]), torch.cat([self._gradient(point), hidden]))
        del point
        if len(hidden):
            wide = torch.cat([rows[: self.count], hidden, rows[self.count :]])
            rows = self._solve(basis, wide, state, _WIDE_STALLED if state.stalls else _WIDE)
        rows = self._solve(basis, rows, state, _SOLVE)
        state.rows, state.moved = rows, rows - state.rows
        state.step += 1

    def _gradient(self, point: Point) -> torch.Tensor:
        """Gradients of the samples and of the linear part in the whole space, (n + j, d). One pass."""
        slopes = cast(CountedLinearisation, point.at).slopes
        cotangents = slopes[: self.count] * (point.coefficients @ point.residual)
        if self.span.num_linear:
            cotangents = torch.cat([cotangents, point.residual])
        return self._features.pull_back(cotangents)

    def _hidden_rows(self, state: BasisState, point: Point) -> torch.Tensor:
        """Rows along the residual's second moments, while samples may hide in it."""
        if not self._spectral or not (state.residual > _HIDDEN_ABOVE or state.stalls):
            return state.rows[:0]
        more = max(3, math.ceil(_HIDDEN_SHARE * self.count * (1 + min(state.stalls, 2))))
        sweeps = 2 if state.stalls else 1
        found = spectral_rows(self._features, point.residual, more, state.generator, sweeps=sweeps, spare=0)
        return onto_sphere(found, self.radius)

    def _inside(self, basis: GrowingBasis) -> Span:
        """The equation for samples in the span of the basis."""
        return self.span.over(basis.features)

    def _solve(self, basis: GrowingBasis, rows: torch.Tensor, state: BasisState, patience: Patience) -> torch.Tensor:
        """Levenberg-Marquardt in the basis, on as many coordinates as it takes, and down to `count` samples."""
        free, inner = state.free, _INNER_STALLED if state.stalls else _INNER
        samples = rows.shape[0] - self.span.num_linear
        equations = self._equations * (_STALLED_EQUATIONS if state.stalls else 1) * basis.rank * samples
        inside = self._inside(basis).subset(self._draw(equations, state.generator))
        scale = math.sqrt(basis.rank / self._features.input_dim)
        radius = None if free else scale * self.radius
        lowered = basis.lower(rows)
        if radius is not None:
            lowered = torch.cat([onto_sphere(lowered[:samples], radius), lowered[samples:]])
        point = levenberg_marquardt(inside, lowered, patience, radius=radius, inner=inner)
        kept = basis.lift(drop_rows(point, self.count))
        return bounded(kept, self.count, self.radius, NORMS) if free else kept

    def _draw(self, equations: float, generator: torch.Generator) -> slice:
        """A random window of so many coordinates, or all."""
        width = self._features.num_features
        size = min(width, math.ceil(equations / self.span.num_outputs))
        first = int(torch.randint(0, width - size + 1, (1,), generator=generator))
        return slice(first, first + size)

    def _with_linear(self, samples: torch.Tensor) -> torch.Tensor:
        samples = onto_sphere(samples, self.radius)
        return torch.cat([samples, self.span.first_linear()]) if self.span.num_linear else samples
