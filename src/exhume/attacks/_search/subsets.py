"""The search by subsets: steps on random subsets of coordinates, full solves in between, restarts.

Steps on subsets are not tested: first cheap ones with momentum, then, where these come to rest too early, Gauss-Newton
steps. At the solution the residual vanishes on every subset, and with it the noise of the steps; at any other minimum
the subsets disagree, and their noise moves the rows on. Once the residual is small, all coordinates are used:
Levenberg-Marquardt, then rounds that exchange rows, which brings up samples with small coefficients.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from functools import partial

import torch
from scipy.optimize import linear_sum_assignment

from exhume.attacks._base.problem import Problem
from exhume.attacks._base.search_tuning import SubsetTuning
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import Search, SearchResult, Where
from exhume.attacks._search.noise_floor import is_noise_floor
from exhume.attacks._search.on_subsets.momentum_phase import MomentumPhase, MomentumState
from exhume.attacks._search.rows import exchange_rows, residual_rows
from exhume.attacks._search.schedule import random_coordinates
from exhume.attacks._search.spectral import random_rows, shows_samples, spectral_rows
from exhume.attacks._search.working_equation import working_equation
from exhume.equation.span import SpanPoint
from exhume.features import OneLayerFeatures
from exhume.results.stop import Stop
from exhume.solvers import CGOptions, FreeNorm, Norms, gauss_newton_step, levenberg_marquardt


@dataclass(frozen=True)
class Minimum:
    """Rows that a full solve reached, and their loss."""

    loss: float
    rows: torch.Tensor


@dataclass(frozen=True)
class SubsetState:
    """Everything that the next step depends on.

    Attributes:
        rows: the unknowns.
        damping: of steps on subsets.
        momentum: of the first phase of a start; None after it.
        start, step: which start, and how many steps on subsets it has made.
        wait: the step before which the full equation is not tried again.
        solved_in_full: whether this start has made a full solve.
        residual, recent: relative residuals of the last subset, and of those before it.
        last_loss: of the last full solve of this start.
        minima: at which earlier starts settled.
        best: of all full solves.
    """

    rows: torch.Tensor
    damping: float
    momentum: MomentumState | None = None
    start: int = 1
    step: int = 0
    wait: int = 0
    solved_in_full: bool = False
    residual: float = 1.0
    recent: tuple[float, ...] = ()
    last_loss: float = math.inf
    minima: tuple[Minimum, ...] = ()
    best: Minimum | None = None


class SubsetSearch(Search[SubsetState]):
    """Looks for `count` samples that solve the working equation of features act(V x).

    Where norms are unknown too, a start keeps to a sphere all the same (free norms make more spurious minima), and
    every full solve frees them. Odd-numbered starts go on with free norms after their first full solve has failed:
    samples whose norms differ widely are found so, others on the sphere.

    Args:
        problem: to be solved.
        count: how many samples.
        max_starts, steps_per_start: how long to look; by default the tuned number of steps.
        rows: where the first start begins, without a phase with momentum.
    """

    state_type = SubsetState

    def __init__(
        self,
        problem: Problem,
        count: int,
        *,
        max_starts: int,
        steps_per_start: int | None = None,
        rows: torch.Tensor | None = None,
    ) -> None:
        equation = working_equation(problem, count)
        assert isinstance(equation.features, OneLayerFeatures)
        self.problem, self.count, self.equation, self._features = problem, count, equation, equation.features
        tuning = self._tuning = problem.tuning.subsets
        steps_per_start = steps_per_start or tuning.steps_per_start
        self._max_starts, self._steps_per_start, self._rows = max_starts, steps_per_start, rows
        shown = shows_samples(self._features.activation, problem.tuning.equation)
        self._spectral = problem.tuning.spectral if shown else None
        width, dim = self._features.num_features, self._features.input_dim
        fixed = 0 if equation.fixed is None else equation.fixed.shape[0]
        # A subset holds about as many equations as there are unknowns, and more than the nuisance has parameters.
        share = min(
            tuning.most_share, max(dim * count / (width * equation.num_outputs), 2 * (count + fixed + dim) / width)
        )
        self._subset_size = min(width, max(1, int(share * width)))
        plenty = share < tuning.plenty_below
        self._check_every = tuning.check_every if plenty else tuning.scarce_check_every
        self._try_below = tuning.try_below if plenty else tuning.scarce_try_below
        self._half = steps_per_start // 2
        self._cycle = min(tuning.cycle, steps_per_start - self._half)
        self._phase = MomentumPhase(equation, problem.sphere, self._spectral, self._half, tuning.momentum)
        self._cg_tolerance = tuning.cg_tolerance_wide if dim > tuning.wide_from else tuning.cg_tolerance

    def begin(self, generator: torch.Generator) -> SubsetState:
        """The first start: given rows, spectral ones where second moments show the samples, or random ones."""
        if self._rows is not None:
            return SubsetState(self._rows, self._tuning.damping, step=self._half)
        if self._spectral is not None:
            rest = self.equation.without_nuisance()
            samples = spectral_rows(self._features, rest, self.count, generator, self._spectral)
        else:
            samples = random_rows(self.count, self._features.input_dim, generator, self._features)
        return self._started(SubsetState(samples, self._tuning.damping), samples)

    def where(self, state: SubsetState) -> Where:
        """Steps of all starts."""
        done = (state.start - 1) * self._steps_per_start + state.step
        return Where(done, self._max_starts * self._steps_per_start, state.residual**2)

    def advance(self, state: SubsetState, session: Session) -> SubsetState | SearchResult:
        """A step on a subset; now and then a full solve, which may find the samples or end the start.

        A full solve is Levenberg-Marquardt on all coordinates, and rounds; the state goes on from what they reach.
        """
        gathered = self.problem.tuning.spectral.dense_dim
        coordinates = random_coordinates(self._features, self._subset_size, gathered, session.generator)
        if state.momentum is not None:
            momentum, residual = self._phase.step(state.momentum, coordinates, state.damping)
            state, rows = replace(state, momentum=momentum), self._phase.rows_of(momentum)
        else:
            rows, residual = self._gauss_newton_step(state, coordinates)
        recent = (*state.recent, residual)[-self._tuning.momentum.remembered :]
        state = replace(state, rows=rows, residual=residual, step=state.step + 1, recent=recent)
        if state.step % self._check_every:
            return state
        typical = statistics.median_high(state.recent[-self._tuning.recent :])
        state = self._with_damping(state, typical)
        if state.momentum is not None:
            going_on = self._in_first_phase(state, session.generator)
            if going_on is not None:
                return going_on
            state = replace(state, momentum=None, step=self._half)
        if (typical < self._try_below and state.step >= state.wait) or (state.step - self._half) % self._cycle == 0:
            norms: Norms = self.problem.norms if self._frees_norms(state) else self.problem.sphere
            rule, stop = self._tuning.full_solve, session.is_over_budget
            point = levenberg_marquardt(self.equation, state.rows, norms, rule, should_stop=stop).point
            add = partial(residual_rows, self.equation, self.problem.tuning.spectral, session.generator)
            point = exchange_rows(
                self.equation,
                point,
                norms,
                self._tuning.rounds,
                add,
                is_done=lambda point: self.problem.is_found(point) or stop(point),
                should_stop=stop,
            )
            result = self._after_full_solve(point, state, session)
            if isinstance(result, SearchResult):
                return result
            state = result
        if state.step < self._steps_per_start:
            return state
        if state.start >= self._max_starts:
            return self.give_up(state, Stop.STARTS_SPENT, session)
        return self._restarted(state, session.generator)

    def give_up(self, state: SubsetState, stop: Stop, session: Session) -> SearchResult:
        """The best rows of all full solves."""
        return self._result(state.best.rows if state.best else state.rows, stop, state)

    def _result(self, rows: torch.Tensor, stop: Stop, state: SubsetState) -> SearchResult:
        return SearchResult(rows, self.count, stop, self.problem, state.start, state.step, working=True)

    def _stop_at(self, point: SpanPoint, state: SubsetState) -> Stop | None:
        """Why the search ends where a full solve did: found, at a noise floor, or where an earlier start was."""
        tuning = self.problem.tuning
        if self.problem.is_found(point):
            return Stop.CONVERGED
        drifted = self.problem.target.trained_head is not None
        counted = self.problem.equation_count(self.count)
        if drifted and is_noise_floor(self.equation, point, counted, tuning.noise_floor):
            return Stop.FLOOR
        known = any(same_minimum(point, each, self.count, self._tuning) for each in state.minima)
        return Stop.REPRODUCED if known and self._is_settled(point, state) else None

    def _is_settled(self, point: SpanPoint, state: SubsetState) -> bool:
        """Whether two full solves in a row reached the same loss."""
        return abs(point.loss - state.last_loss) < self._tuning.settled * point.loss

    def _gauss_newton_step(self, state: SubsetState, coordinates: slice | torch.Tensor) -> tuple[torch.Tensor, float]:
        """Rows after a step on some of the coordinates, and the relative residual there before it."""
        part = self.equation.subset(coordinates)
        point = part.at(state.rows)
        tolerance = min(self._cg_tolerance, self._tuning.cg_tolerance) if state.solved_in_full else self._cg_tolerance
        norms, cg = self._norms_of(state), CGOptions(self._tuning.cg_steps, tolerance)
        step, _ = gauss_newton_step(part, point, state.damping, norms, cg)
        return norms.retract(point.rows + step, point.num_samples), math.sqrt(point.loss)

    def _with_damping(self, state: SubsetState, typical: float) -> SubsetState:
        """More damping for a start that is slow or whose rows resemble each other."""
        slow = state.step >= self._tuning.slow_after and typical > self._tuning.slow_above
        if slow or likeness(state.rows[: self.count]) > self._tuning.alike_above:
            return replace(state, damping=self._tuning.more_damping)
        return state

    def _in_first_phase(self, state: SubsetState, generator: torch.Generator) -> SubsetState | None:
        """The state while the phase with momentum goes on, idle rows replaced where it is at rest; None at its end."""
        if state.momentum is None or self._phase.is_over(state.recent, state.step):
            return None
        if not self._phase.is_at_rest(state.recent):
            return state
        replaced = self._phase.replace_idle_rows(state.momentum, generator)
        if replaced is None:
            return None
        return replace(state, momentum=replaced, rows=self._phase.rows_of(replaced), recent=())

    def _after_full_solve(self, point: SpanPoint, state: SubsetState, session: Session) -> SubsetState | SearchResult:
        """Frees norms where they are unknown; then the result, or the state in which the start goes on."""
        state = replace(state, rows=point.rows, wait=state.step + self._tuning.wait, solved_in_full=True)
        if self.problem.norms_open and not self.problem.is_found(point):
            rule, free, stop = self._tuning.freed, self.problem.norms, session.is_over_budget
            point = levenberg_marquardt(self.equation, point.rows, free, rule, should_stop=stop).point
            if self._frees_norms(state):
                state = replace(state, rows=self._norms_of(state).retract(point.rows, self.count))
        if state.best is None or point.loss < state.best.loss:
            state = replace(state, best=Minimum(point.loss, point.rows))
        stop_here = self._stop_at(point, state)
        if stop_here is Stop.REPRODUCED:
            return self.give_up(state, stop_here, session)
        if stop_here is not None:
            return self._result(point.rows, stop_here, state)
        if self._is_settled(point, state):
            minima = (*state.minima, Minimum(point.loss, point.rows))
            state = replace(state, minima=minima, step=self._steps_per_start)
        return replace(state, last_loss=point.loss)

    def _frees_norms(self, state: SubsetState) -> bool:
        """Whether steps leave the sphere: in every other start, once a full solve on it has not found the samples.

        The other starts stay on the sphere.
        """
        return self.problem.norms_open and state.solved_in_full and state.start % 2 == 1

    def _norms_of(self, state: SubsetState) -> Norms:
        """The constraint on norms in steps on subsets, where free norms could diverge."""
        sphere, tuning = self.problem.sphere, self._tuning
        return FreeNorm(sphere.radius, tuning.least_norm, tuning.most_norm) if self._frees_norms(state) else sphere

    def _restarted(self, state: SubsetState, generator: torch.Generator) -> SubsetState:
        samples = random_rows(self.count, self._features.input_dim, generator, self._features)
        kept = SubsetState(
            state.rows,
            self._tuning.damping,
            start=state.start + 1,
            residual=state.residual,
            minima=state.minima,
            best=state.best,
        )
        return self._started(kept, samples)

    def _started(self, state: SubsetState, samples: torch.Tensor) -> SubsetState:
        """A start at these samples, with its first phase."""
        rows = self.problem.sphere.retract(samples)
        if self.equation.num_linear:
            rows = torch.cat([rows, self.equation.first_linear()])
        return replace(state, rows=rows, momentum=self._phase.begin(rows))


def same_minimum(point: SpanPoint, other: Minimum, count: int, tuning: SubsetTuning) -> bool:
    """Whether a full solve ended at a known minimum."""
    near = abs(point.loss - other.loss) <= 2 * tuning.settled * other.loss
    return near and agreement(point.samples, other.rows[:count]) > tuning.agreement


def likeness(samples: torch.Tensor) -> float:
    """The mean |cosine| of two different rows; 0 for a single one."""
    unit = torch.nn.functional.normalize(samples, dim=1)
    pairs = samples.shape[0] * (samples.shape[0] - 1)
    return float((unit @ unit.T).abs().fill_diagonal_(0).sum()) / max(pairs, 1)


def agreement(samples: torch.Tensor, others: torch.Tensor) -> float:
    """The median |cosine| of two sets of rows, matched one to one."""
    unit, other = (torch.nn.functional.normalize(rows.double(), dim=1) for rows in (samples, others))
    cosines = (unit @ other.T).abs().cpu()
    return float(cosines[linear_sum_assignment(-cosines.numpy())].median())
