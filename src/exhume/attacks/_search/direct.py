"""The direct search: Levenberg-Marquardt on all coordinates, for features of any kind.

With several outputs and many equations random rows find the samples in a few dozen steps. Near the wall they do not:
there, if features are act(V x), further starts begin with an annealed phase. A trained body has drifted features, so
that the residual ends above rounding, at a noise floor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from exhume.attacks._base.problem import Problem
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import NOT_SAVED, Search, SearchResult, Where
from exhume.attacks._search import last_sample
from exhume.attacks._search.noise_floor import is_explained_by_drift, is_noise_floor
from exhume.attacks._search.on_subsets.annealing import Annealing, AnnealingState
from exhume.attacks._search.rows import exchange_rows, residual_rows, turn_rows
from exhume.attacks._search.spectral import is_one_layer, random_rows
from exhume.attacks._search.subsets import Minimum
from exhume.equation.span import SpanPoint
from exhume.results.stop import Stop
from exhume.solvers import Damping, LMState, Norms, StoppingRule, lm_step

# Share of the loss that the last step must leave for the rows to be near a minimum when a budget ends a start.
_SETTLED = 0.9


@dataclass(frozen=True)
class DirectState:
    """Everything that the next step depends on.

    Attributes:
        rows: the unknowns.
        damping, tried, losses, rejections: of the Levenberg-Marquardt run, as in `LMState`.
        start: which start.
        on_sphere: how many steps it made before it freed the norms.
        freed: whether it did.
        best: of the starts before.
        annealing: the first phase of the start; None after it.
        annealed: where the last such phase ended.
        point: the rows, evaluated; None in the annealed phase.
    """

    rows: torch.Tensor
    damping: float = Damping.start
    tried: int = 0
    losses: tuple[float, ...] = ()
    rejections: int = 0
    start: int = 1
    on_sphere: int = 0
    freed: bool = False
    best: Minimum | None = None
    annealing: AnnealingState | None = None
    annealed: AnnealingState | None = None
    point: SpanPoint | None = field(default=None, metadata=NOT_SAVED)

    @property
    def step(self) -> int:
        """Steps of this start."""
        return self.on_sphere + self.tried

    @property
    def run(self) -> LMState[SpanPoint]:
        """The Levenberg-Marquardt run."""
        assert self.point is not None
        return LMState(self.point, self.damping, self.tried, self.losses, self.rejections)

    def after(self, run: LMState[SpanPoint]) -> DirectState:
        """This state after further steps of its Levenberg-Marquardt run."""
        return replace(
            self,
            rows=run.point.rows,
            damping=run.damping,
            tried=run.steps,
            losses=run.losses,
            rejections=run.rejections,
            point=run.point,
        )


class DirectSearch(Search[DirectState]):
    """Looks for `count` samples that solve the model's own equation.

    With several outputs every start but the first begins with an annealed phase, if features are act(V x).

    Where norms are unknown too, a start keeps to a sphere until it gets no further, then frees them: rows that may grow
    at once diverge where a normalisation maps all large inputs to nearly the same features.

    Args:
        problem: to be solved.
        count: how many samples.
        max_starts: how many starts.
        rows: where the first start begins; the others begin at random rows.
    """

    state_type = DirectState

    def __init__(self, problem: Problem, count: int, max_starts: int, rows: torch.Tensor | None = None) -> None:
        self.problem, self.count, self._max_starts, self._rows = problem, count, max_starts, rows
        self._tuning = problem.tuning.direct
        self.equation = problem.equation(ridge=problem.tuning.equation.ridge)
        self._counted = problem.equation_count(count)
        self._annealing: Annealing | None = None
        if count > 1 and problem.target.num_outputs > 1 and problem.is_one_layer_without_bias:
            self._annealing = Annealing(self.equation, count, problem.sphere, problem.tuning)

    def begin(self, generator: torch.Generator) -> DirectState:
        """The first start."""
        return self._started(DirectState(self._first_rows(1, generator)))

    def restore(self, state: DirectState) -> DirectState:
        """Evaluates the rows."""
        return state if state.annealing else replace(state, point=self.equation.at(state.rows))

    def where(self, state: DirectState) -> Where:
        """Steps of all starts."""
        steps = self._tuning.rule.max_steps
        if state.annealing:  # counted as a part of the start's steps
            done = steps * state.annealing.step // state.annealing.max_steps // 2
            loss = float(state.annealing.residuals.min()) ** 2
            return Where((state.start - 1) * steps + done, self._max_starts * steps, loss)
        return Where((state.start - 1) * steps + state.step, self._max_starts * steps, state.losses[-1])

    def advance(self, state: DirectState, session: Session) -> DirectState | SearchResult:
        """The next accepted or annealed step; at the end of a start rounds, and the next start."""
        if state.annealing and self._annealing:
            annealing = self._annealing.advance(state.annealing, session.generator)
            if self._annealing.is_over(annealing):
                ended = DirectState(annealing.best, start=state.start, best=state.best, annealed=annealing)
                return self._started(ended)
            return replace(state, rows=annealing.best, annealing=annealing)
        run = state.run
        while True:
            norms, rule = self._norms_of(state)
            while not rule.is_over(run):
                last, run = run, lm_step(self.equation, run, norms, self._tuning.cg)
                if run.point is not last.point:
                    return state.after(run)
            if not self.problem.norms_open or state.freed:
                break
            state = replace(state.after(run), freed=True, on_sphere=run.steps)
            run = LMState.at(run.point)
        return self._end_start(state.after(run), session)

    def give_up(self, state: DirectState, stop: Stop, session: Session) -> SearchResult:
        """The best rows of all starts."""
        point = state.point or self.equation.at(state.rows)
        best = _better(state.best, point)
        if self.problem.is_found(point):
            stop = Stop.CONVERGED
        elif (best is state.best or _is_settled(state.losses)) and self._is_trusted_floor(best.rows):
            stop = Stop.FLOOR
            if best is not state.best:  # the rows of finished starts were turned at their end
                return self._result(self._turned(point, lambda point: False).rows, stop, state)
        return self._result(best.rows, stop, state)

    def _turned(self, point: SpanPoint, should_stop: Callable[[SpanPoint], bool]) -> SpanPoint:
        """The point with rows turned to their negatives where that lowers the loss, if the head was trained."""
        trained, rounds = self.problem.target.trained_head is not None, self._tuning.rounds
        return turn_rows(self.equation, point, self.problem.norms, rounds, should_stop) if trained else point

    def _end_start(self, state: DirectState, session: Session) -> DirectState | SearchResult:
        point = state.run.point
        if math.sqrt(point.loss) < self._tuning.near:
            point = exchange_rows(
                self.equation,
                point,
                self.problem.norms,
                self._tuning.rounds,
                partial(residual_rows, self.equation, self.problem.tuning.spectral, session.generator),
                is_done=lambda point: self.problem.is_found(point) or self._is_last(point, None),
                should_stop=session.record_within_budget,
            )
            if not self.problem.is_found(point):
                point = self._turned(point, session.record_within_budget)
        best = _better(state.best, point)
        if self.problem.is_found(point):
            return self._result(point.rows, Stop.CONVERGED, state)
        if self._is_last(point, state.best) or (state.start >= self._max_starts and self._is_trusted_floor(best.rows)):
            return self._result(best.rows, Stop.FLOOR, state)
        if state.start >= self._max_starts:
            return self._result(best.rows, Stop.STARTS_SPENT, state)
        start = state.start + 1
        if self._annealing:
            annealing = self._annealing.begin(session.generator, state.annealed)
            return DirectState(annealing.best, start=start, best=best, annealing=annealing)
        return self._started(DirectState(self._first_rows(start, session.generator), start=start, best=best))

    def _started(self, state: DirectState) -> DirectState:
        return state.after(LMState.at(self.equation.at(state.rows)))

    def _norms_of(self, state: DirectState) -> tuple[Norms, StoppingRule]:
        """The constraint on norms at this stage of a start, and when the stage ends."""
        if self.problem.norms_open and not state.freed:
            return self.problem.sphere, self._tuning.on_sphere
        return self.problem.norms, self._tuning.rule

    def _is_last(self, point: SpanPoint, before: Minimum | None) -> bool:
        """Whether no further start is needed: the features' drift explains the floor, or two starts reached it."""
        if self.problem.target.trained_head is None or not self._is_noise_floor(point):
            return False
        same = self.problem.tuning.noise_floor.same
        reached_twice = before is not None and abs(point.loss - before.loss) <= same * before.loss
        return reached_twice or is_explained_by_drift(self.problem, self.equation, point)

    def _is_trusted_floor(self, rows: torch.Tensor) -> bool:
        return self.problem.target.trained_head is not None and self._is_noise_floor(self.equation.at(rows))

    def _is_noise_floor(self, point: SpanPoint) -> bool:
        return is_noise_floor(self.equation, point, self._counted, self.problem.tuning.noise_floor)

    def _result(self, rows: torch.Tensor, stop: Stop, state: DirectState) -> SearchResult:
        return SearchResult(rows, self.count, stop, self.problem, state.start, state.step)

    def _first_rows(self, start: int, generator: torch.Generator) -> torch.Tensor:
        """Given or random rows; a single sample is looked for around the linear part of the weights, on either side."""
        features, sphere = self.equation.features, self.problem.sphere
        if start == 1 and self._rows is not None:
            return self._rows
        rows = sphere.retract(random_rows(self.count, features.input_dim, generator, features))
        if self.count > 1 or not is_one_layer(features):
            return rows
        if last_sample.applies(self.equation, self.problem.tuning.last_sample):
            side, inactive = 1 if start % 2 else -1, self.problem.tuning.last_sample.inactive
            solved = last_sample.last_sample(self.equation, side, inactive) if start <= 2 else None
            if solved is not None:
                return sphere.retract(solved)
            start = max(1, start - 2)
        along = features.rmatvec(self.equation.without_nuisance().sum(0, keepdim=True))
        along = sphere.retract(along) * (1 if start % 2 else -1)
        return along if start <= 2 else sphere.retract(along + rows)


def _is_settled(losses: tuple[float, ...]) -> bool:
    """Whether the last step changed the loss so little that the rows are near a minimum."""
    return len(losses) > 1 and losses[-1] > _SETTLED * losses[-2]


def _better(best: Minimum | None, point: SpanPoint) -> Minimum:
    return best if best is not None and best.loss <= point.loss else Minimum(point.loss, point.rows)
