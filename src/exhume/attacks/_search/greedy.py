"""The greedy search: add the points that the residual shows best, refine all jointly, drop the idle, repeat.

It is sliding Frank-Wolfe (Denoyelle et al. 2020) for the span equation, with coefficients projected out. For kernel
features theta is a sum of bumps a_i k(x - x_i): the strongest show first, and what is left of theta shows the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from exhume.attacks._base.problem import Problem
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import Search, SearchResult, Where
from exhume.attacks._search.ascent import Ascent, distinct
from exhume.attacks._search.rows import drop_rows
from exhume.equation.dense_span import DensePoint, DenseSpan
from exhume.equation.span import SpanPoint
from exhume.results.error_bars import DEFAULT_LIMITS
from exhume.results.stop import Stop
from exhume.solvers import levenberg_marquardt


@dataclass(frozen=True)
class GreedyState:
    """Everything that the next round depends on, besides the session's generator.

    Attributes:
        rows: the points (m, d), refined.
        loss: that they leave.
        rounds: made so far.
        best_rows, best_loss: the best so far.
        stalled: rounds since the last clear fall of the best loss.
    """

    rows: torch.Tensor
    loss: float = 1.0
    rounds: int = 0
    best_rows: torch.Tensor | None = None
    best_loss: float = math.inf
    stalled: int = 0


class GreedySearch(Search[GreedyState]):
    """Looks for samples whose features span the displacement.

    Args:
        problem: to be solved.
        count: how many samples, or at most how many if that is unknown.
        max_rounds: rounds at most.
        starts: of the ascents in every round.
    """

    state_type = GreedyState

    def __init__(self, problem: Problem, count: int, max_rounds: int, starts: int) -> None:
        self.problem, self.count, self._max_rounds, self._starts = problem, count, max_rounds, starts
        self.tuning = problem.tuning.greedy
        double = problem.features.with_dtype(torch.float64)
        self.equation = DenseSpan(double, problem.target.displacement, fixed=problem.known_features(double))
        single = problem.features.with_dtype(torch.float32)
        self._ascent = Ascent(single, problem.norms, self.tuning.ascent)

    def begin(self, generator: torch.Generator) -> GreedyState:
        """No rows."""
        dim = self.problem.features.input_dim
        return GreedyState(torch.zeros((0, dim), dtype=torch.float64, device=self.problem.features.device))

    def where(self, state: GreedyState) -> Where:
        """Rounds."""
        return Where(state.rounds, self._max_rounds, state.loss)

    def finished(self, state: GreedyState) -> Stop | None:
        """After so many rounds."""
        return Stop.STARTS_SPENT if state.rounds >= self._max_rounds else None

    def advance(self, state: GreedyState, session: Session) -> GreedyState | SearchResult:
        """One round."""
        rows = self._kept(state, session)
        rows = torch.cat([rows, self._new_points(rows, state.stalled, session)])
        point = self._refine(rows, session)
        if state.stalled and len(rows) >= self.count:  # few steps do not show whether an exchange was right
            point = self._polished(point, session)
        if len(rows) > self.count and not self._is_near(point):
            point = self._refine(drop_rows(point, self.count), session)
        if self._is_near(point):
            point = self._fewest(self._polished(point, session), session)
            if self._is_at_floor(point) and len(point.rows) <= self.count:
                return SearchResult(point.rows, len(point.rows), Stop.CONVERGED, self.problem, 1, state.rounds + 1)
            point = point if len(point.rows) <= self.count else self._refine(drop_rows(point, self.count), session)
        fell = point.loss < self.tuning.fall * state.best_loss
        best = point.loss < state.best_loss
        return replace(
            state,
            rows=point.rows,
            loss=point.loss,
            rounds=state.rounds + 1,
            best_rows=point.rows if best else state.best_rows,
            best_loss=min(point.loss, state.best_loss),
            stalled=0 if fell else state.stalled + 1,
        )

    def give_up(self, state: GreedyState, stop: Stop, session: Session) -> SearchResult:
        """The best rows; random ones if there are none, and as many as are looked for."""
        rows = state.rows if state.best_rows is None else state.best_rows
        if self.problem.num_samples is not None and len(rows) < self.count:
            more = self._random(self.count - len(rows), session.generator)
            rows = torch.cat([rows, more])
        if not len(rows):
            rows = self._random(1, session.generator)
        return SearchResult(rows[: self.count], min(len(rows), self.count), stop, self.problem, 1, state.rounds)

    def _fewest(self, point: SpanPoint, session: Session) -> SpanPoint:
        """The fewest rows at the floor that dropping one after the other leads to; if none are, those given.

        Too many rows fit almost as well as the samples do, some of them as pairs around one sample.
        """
        if self._is_at_floor(point) and len(point.rows) == self.problem.num_samples:
            return point
        fewest, tried = point, point
        while len(tried.rows) > 1 and self._is_near(tried) and not session.budget_spent():
            tried = self._polished(self.equation.at(drop_rows(tried, len(tried.rows) - 1)), session)
            if self._is_at_floor(tried):
                fewest = tried
        return fewest

    def _polished(self, point: SpanPoint, session: Session) -> SpanPoint:
        """Solved to the floor of the precision, and rows that contribute nothing dropped."""
        norms, rule, cg = self.problem.norms, self.tuning.polish, self.tuning.cg
        for _ in range(self.tuning.polishes):
            before = point.loss
            for damping in (self.tuning.damping_polish, self.tuning.damping):
                point = levenberg_marquardt(self.equation, point.rows, norms, rule, cg=cg, damping=damping).point
            idle = self._idle(point)
            if idle and len(point.rows) > idle:
                point = self.equation.at(drop_rows(point, len(point.rows) - idle))
            elif not point.loss < self.tuning.polish_left * before or session.budget_spent():
                break
        return point

    def _is_at_floor(self, point: SpanPoint) -> bool:
        """Whether the residual is what rounding leaves."""
        return math.sqrt(point.loss) <= self.tuning.above_floor * self._floor(point)

    def _floor(self, point: SpanPoint) -> float:
        precision = torch.finfo(self.problem.target.displacement.dtype).eps
        return max(precision, DEFAULT_LIMITS.solver_precision) * self.equation.cancellation(point)

    def _idle(self, point: SpanPoint) -> int:
        """How many rows could be removed, one at a time, without a trace."""
        if not self._is_at_floor(point):
            return 0
        least = (self.tuning.idle * self._floor(point)) ** 2
        return int((self.equation.contributions(point) < least).sum())

    def _is_near(self, point: SpanPoint) -> bool:
        return math.sqrt(point.loss) < self.tuning.near

    def _refine(self, rows: torch.Tensor, session: Session) -> SpanPoint:
        return levenberg_marquardt(
            self.equation,
            rows,
            self.problem.norms,
            self.tuning.refine,
            cg=self.tuning.cg,
            damping=self.tuning.damping,
            should_stop=session.is_over_budget,
        ).point

    def _kept(self, state: GreedyState, session: Session) -> torch.Tensor:
        """The rows to go on with.

        That is all of them while the loss falls. In a round without a clear fall, one of the best rows makes way for
        another: of the two that are most alike the lesser one, since a pair around one sample imitates what its moves
        would do. After so many such rounds a random half of the rows is left.
        """
        if state.stalled == 0 or state.best_rows is None:
            return state.rows
        if (state.stalled + 1) % self.tuning.restart_after == 0:
            order = torch.randperm(len(state.rows), generator=session.generator)
            return state.rows[order[: len(order) // 2]]
        if state.stalled >= self.tuning.restart_after or len(state.best_rows) < self.count:
            return state.rows
        point = self.equation.at(state.best_rows)
        unit = torch.nn.functional.normalize(point.linearised.features, dim=1)
        alike = (unit @ unit.T).abs().fill_diagonal_(0.0)
        pair = alike.argmax() if state.stalled % 2 else torch.randint(alike.numel(), (), generator=session.generator)
        contributions = self.equation.contributions(point)
        lesser = min(divmod(int(pair), len(alike)), key=lambda row: float(contributions[row]))
        rest = torch.cat([state.best_rows[:lesser], state.best_rows[lesser + 1 :]])
        return self._refine(rest, session).rows

    def _new_points(self, rows: torch.Tensor, stalled: int, session: Session) -> torch.Tensor:
        """The points that the residual of the rows shows best, (m, d)."""
        tuning, residual, spanned = self.tuning.ascent, self.equation.without_nuisance(), None
        if len(rows):
            point = self.equation.at(rows)
            residual, spanned = point.residual, self._spanned(point) if stalled else None
        # A budget that is nearly spent allows fewer starts.
        affordable = session.passes_left() * self.count / self._ascent.cost
        most = self._starts * (1 + min(stalled, self.tuning.most_starts - 1))
        starts = self._random(int(max(1, min(most, affordable))), session.generator)
        points, values = self._ascent.climb(residual, starts, spanned)
        best = values.argsort(descending=True)[: 8 * self.count]
        features = self._ascent.features.forward(points[best])
        missing = max(1, self.count - len(rows))
        missing = min(missing, len(rows)) if self.problem.num_samples is None else missing
        wanted = 1 + max(0, missing - 1) // self.tuning.joined
        chosen = distinct(features, values[best], wanted, tuning.least_share, tuning.most_alike)
        return points[best[chosen]].to(rows)

    def _spanned(self, point: DensePoint) -> torch.Tensor | None:
        """An orthonormal basis of the rows' features and of what moving the rows changes; None for several outputs."""
        if self.problem.target.num_outputs > 1:
            return None
        moves = self.equation.dense_jacobian(point).flatten(1)  # (p, n d), orthogonal to the features
        if point.basis.shape[1] + moves.shape[1] >= moves.shape[0]:
            return None
        return torch.cat([point.basis, torch.linalg.qr(moves)[0]], 1)

    def _random(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Points with the known mean and spread of the columns, by default 0 and 1."""
        features, known = self.problem.features, self.problem.target.knowledge
        points = torch.randn((count, features.input_dim), generator=generator, dtype=torch.float64)
        if known.column_std is not None:
            points = points * torch.tensor(known.column_std, dtype=torch.float64)
        if known.column_mean is not None:
            points = points + torch.tensor(known.column_mean, dtype=torch.float64)
        return self.problem.norms.retract(points.to(features.device))
