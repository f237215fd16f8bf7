"""The search in a basis, where inputs are many and samples few: Gauss-Newton inside a small basis that grows.

The samples span n of d dimensions. Every step adds their gradients and the strongest second moments of the residual to
the current rows and the last move, about 3n directions, and solves there: on V B^T a pass costs r/d of a full one, and
few coordinates determine r n unknowns. What remains is about two full passes a step, for gradient and new directions.
A step gains what one of conjugate gradients on the whole equation does: near the samples the residual falls by
sqrt(dn/p).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import torch

from exhume.attacks._base.problem import Problem
from exhume.attacks._base.search_tuning import BasisTuning
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import Search, SearchResult, Where
from exhume.attacks._search.rows import drop_rows
from exhume.attacks._search.spectral import random_rows, shows_samples, spectral_rows, strongest_output
from exhume.attacks._search.working_equation import working_equation
from exhume.features import OneLayerMap
from exhume.features.growing_basis import GrowingBasis
from exhume.features.one_layer import OneLayerLinearisation
from exhume.results.stop import Stop
from exhume.solvers import FixedNorm, StoppingRule, levenberg_marquardt


def is_basis_small(problem: Problem, count: int) -> bool:
    """Whether so many samples span few of the input's dimensions, so that a search in a small basis pays.

    Not where norms are to be found too: there samples were found less often than by subsets of coordinates. Nor where
    second moments do not show the samples.
    """
    dim, known = problem.features.input_dim, problem.target.knowledge.known_samples
    tuning, shown = problem.tuning.basis, shows_samples(problem.one_layer.activation, problem.tuning.equation)
    return dim >= max(tuning.least_dims, tuning.dims_per_sample * count) and shown and not (problem.norms_open or known)


@dataclass(frozen=True)
class BasisState:
    """Everything that the next step depends on; the basis itself is computed from it.

    Attributes:
        rows: the unknowns.
        moved: the last step's move of the rows.
        enough: residual at which a phase with extra rows ends.
        step: steps made.
        residual: relative, before the last step.
        best: least residual of this phase.
        stalls: steps in a row that have stalled.
        phase: odd ones have extra rows.
    """

    rows: torch.Tensor
    moved: torch.Tensor
    enough: float
    step: int = 0
    residual: float = 1.0
    best: float = math.inf
    stalls: int = 0
    phase: int = 1

    @property
    def has_extra(self) -> bool:
        """Whether there are more rows than samples, for those that are still hidden in the residual."""
        return self.phase % 2 == 1


class BasisSearch(Search[BasisState]):
    """Looks for `count` samples that solve the working equation; a free linear part is solved for jointly.

    The search keeps what fits of V, and the basis, from one step to the next.

    Args:
        problem: to be solved.
        count: how many samples.
    """

    state_type = BasisState

    def __init__(self, problem: Problem, count: int) -> None:
        self.problem, self.count, self._sphere = problem, count, problem.sphere
        tuning = self._tuning = problem.tuning.basis
        self.equation = working_equation(problem, count)
        features = self.equation.features
        assert isinstance(features, OneLayerMap)
        self._features = features
        # On any process: they change precision together, and their parts of V are not of one size.
        self._half = bool(features.coordinates.sum(torch.tensor(float(not features.is_kept))))
        self._kept = features.kept_as_it_fits(torch.float16)
        self._basis: GrowingBasis | None = None
        balanced = tuning.equations * (features.input_dim / count) ** 2
        self._extra = max(tuning.least_extra, math.ceil(tuning.extra_share * count))
        self._equations = max(tuning.fewest_equations, min(tuning.most_equations, balanced))

    def begin(self, generator: torch.Generator) -> BasisState:
        """Spectral rows, some more than there are samples, solved in their own span."""
        tuning = self._tuning
        wanted = math.ceil(tuning.first_directions * self.count) + self._extra
        early = self.equation.with_features(self._kept)
        found = spectral_rows(self._kept, early.without_nuisance(), wanted, generator, tuning.spectral)
        rows = self._sphere.retract(found)
        if early.num_linear:
            rows = torch.cat([rows, early.first_linear()])
        solved = self._solve(GrowingBasis(self._kept, rows), rows, self.count + self._extra, tuning.wide, generator)
        return self.restore(BasisState(solved, found[:0], tuning.extra_above))

    def restore(self, state: BasisState) -> BasisState:
        """Computes the basis."""
        self._basis_of(state)
        return state

    def where(self, state: BasisState) -> Where:
        """Steps of the only start."""
        return Where(state.step, self._tuning.steps, state.residual**2)

    def advance(self, state: BasisState, session: Session) -> BasisState | SearchResult:
        """New directions for the basis, and the rows solved for in it."""
        basis, generator, rows = self._basis_of(state), session.generator, state.rows
        cotangents, residual, loss = self._evaluate(basis, rows)
        state = replace(state, residual=math.sqrt(loss))
        samples = len(rows) - self.equation.num_linear
        if state.residual < self.problem.tuning.found and samples == self.count:
            return self._result(rows, Stop.CONVERGED, state)
        state = _next_phase(state, self._tuning)
        if state.phase > self._tuning.phases or state.step >= self._tuning.steps:
            return self.give_up(state, Stop.STARTS_SPENT, session)
        wanted = self.count + self._extra * state.has_extra
        gradient, images = self._directions(basis, state, cotangents, residual, generator)
        del cotangents  # as large as the features of all rows
        basis.renew(torch.cat([rows, state.moved]), torch.cat([gradient, images]))
        hidden = self._hidden_rows(basis, images, residual) if state.has_extra else images
        del residual
        solved = rows
        if samples + len(hidden) > wanted:
            wide = torch.cat([rows[:samples], hidden, rows[samples:]])
            solved = self._solve(basis, wide, wanted, self._tuning.wide, generator)
        solved = self._solve(basis, solved, wanted, self._tuning.solve, generator)
        # Where rows were exchanged there is no move; the old rows stay in the basis in its place.
        moved = solved - rows if solved.shape == rows.shape else rows
        return replace(state, rows=solved, moved=moved, step=state.step + 1)

    def give_up(self, state: BasisState, stop: Stop, session: Session) -> SearchResult:
        """The rows cut down to `count` samples."""
        rows = self._solve(self._basis_of(state), state.rows, self.count, self._tuning.solve, session.generator)
        return self._result(rows, stop, state)

    def _result(self, rows: torch.Tensor, stop: Stop, state: BasisState) -> SearchResult:
        return SearchResult(rows, self.count, stop, self.problem, 1, state.step, working=True)

    def _basis_of(self, state: BasisState) -> GrowingBasis:
        """The basis of the rows and the last move: that of the last step, unless the precision of V changes."""
        if self._half and state.residual < self._tuning.half_above:
            # V in half precision is freed first: both precisions together exceed the memory budget.
            self._basis, self._kept, self._half = None, self._features, False
            self._kept = self._features.kept_as_it_fits()
        if self._basis is None:
            self._basis = GrowingBasis(self._kept, torch.cat([state.rows, state.moved]))
        return self._basis

    def _evaluate(self, basis: GrowingBasis, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
        """Cotangents of the rows (m, p), the residual (k, p) and the loss."""
        point = self.equation.with_features(basis.features).at(basis.lower(rows))
        slopes = cast(OneLayerLinearisation, point.linearised).slopes[: point.num_samples]
        cotangents = slopes * (point.coefficients @ point.residual)
        if self.equation.num_linear:
            cotangents = torch.cat([cotangents, point.residual])
        return cotangents, point.residual, point.loss

    def _directions(
        self,
        basis: GrowingBasis,
        state: BasisState,
        cotangents: torch.Tensor,
        residual: torch.Tensor,
        generator: torch.Generator,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of the samples and of the linear part in the whole space, and directions of hidden samples.

        The latter are images of random rows under the residual's second moments, one for every extra row. One read of
        V, one pass and a little.
        """
        if not state.has_extra:
            return basis.full_map.rmatvec(cotangents), state.rows[:0]
        probes = random_rows(self._extra, self._features.input_dim, generator, self._features)
        weights = strongest_output(residual, self._features)
        mean = float(self._features.coordinates.sum(weights.sum())) / self._features.input_dim
        gradient, images = basis.full_map.rmatvec_and_moment(cotangents, probes, weights)
        return gradient, images - mean * probes

    def _hidden_rows(self, basis: GrowingBasis, images: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Rows along the residual's second moments in the span of such images."""
        inside = self._features.coordinates.broadcast(torch.linalg.qr(basis.lower(images).T)[0].T.contiguous())
        moment = inside @ basis.features.weighted_moment(inside, strongest_output(residual, self._features)).T
        _, turned = torch.linalg.eigh((moment + moment.T) / 2)
        return self._sphere.retract(basis.lift(turned.T @ inside))

    def _solve(
        self, basis: GrowingBasis, rows: torch.Tensor, wanted: int, rule: StoppingRule, generator: torch.Generator
    ) -> torch.Tensor:
        """Levenberg-Marquardt in the basis, on as many coordinates as it takes, and down to `wanted` samples."""
        samples = len(rows) - self.equation.num_linear
        window = self._draw(self._equations * basis.rank * samples, generator)
        inside = self.equation.with_features(basis.features).subset(window)
        sphere = FixedNorm(self._sphere.radius * math.sqrt(basis.rank / self._features.input_dim))
        lowered = sphere.retract(basis.lower(rows), samples)
        point = levenberg_marquardt(inside, lowered, sphere, rule, cg=self._tuning.cg).point
        return basis.lift(drop_rows(point, wanted))

    def _draw(self, equations: float, generator: torch.Generator) -> slice:
        """A random window of so many coordinates, or all."""
        width = self._features.num_features
        size = min(width, math.ceil(equations / self.equation.num_outputs))
        first = int(torch.randint(0, width - size + 1, (1,), generator=generator))
        return slice(first, first + size)


def _next_phase(state: BasisState, tuning: BasisTuning) -> BasisState:
    """A phase with extra rows ends when the residual is small; any phase ends when it has stalled."""
    stalls = state.stalls + 1 if state.residual > tuning.stalled * state.best else 0
    best = min(state.best, state.residual)
    if stalls < tuning.stalls and not (state.has_extra and state.residual < state.enough):
        return replace(state, stalls=stalls, best=best)
    enough = min(state.enough, tuning.extra_fall * best)
    return replace(state, enough=enough, phase=state.phase + 1, stalls=0, best=math.inf)
