"""The search for the training samples of a whole network, from noise, by the path equation.

One start: more rows than samples on the straight line between the initial and the trained weights; rows of least
contribution dropped; then nodes on the path that training on the estimate takes, simulated anew after every fit. Rounds
replace the rows of least contribution by noise until that no longer helps. Independent starts are compared; where they
differ, their rows are solved together and the n that contribute most are kept.
Everything is chosen by the residual and by the miss: how far the end of the simulated training lies from the trained
weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch

from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import NOT_SAVED, SearchResult, Where
from exhume.attacks._search.on_paths import LayersFound, PathState, SearchOnPaths
from exhume.equation.path import PathEquation, PathPoint
from exhume.results.stop import Stop
from exhume.solvers import CGOptions, Damping, LMState, StoppingRule, levenberg_marquardt

WIDE, PRUNE, SETTLE, ROUND, COMPARE, POLISH, DONE = "wide", "prune", "settle", "round", "compare", "polish", "done"


@dataclass(frozen=True)
class LayersState(PathState):
    """Where the search stands.

    Attributes:
        damping: of the next solve from noise.
        before_round: (n, d), the rows that a round must improve on; none if no round is under way.
        loss_before: theirs.
        equation: at the nodes of the current path.
    """

    damping: float = Damping.start
    before_round: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    loss_before: float = math.inf
    equation: PathEquation | None = field(default=None, metadata=NOT_SAVED)


class LayersSearch(SearchOnPaths[LayersState]):
    """Looks for n samples whose gradients along the path of training add up to the displacement."""

    state_type = LayersState

    def begin(self, generator: torch.Generator) -> LayersState:
        """Noise, and the straight line."""
        none = torch.zeros((0, self.problem.features.input_dim)).to(self._like)
        return self.restore(LayersState(WIDE, self._noise(self._tuning.wide, generator), none, none, none))

    def restore(self, state: LayersState) -> LayersState:
        """The nodes are computed again."""
        count = self._tuning.last_nodes if state.phase in (POLISH, DONE) else self._tuning.nodes
        equation = self.curved(state.path_rows, count)[0] if len(state.path_rows) else self.straight[0]
        return replace(state, equation=equation)

    def where(self, state: LayersState) -> Where:
        """The loss is that of the current rows."""
        return Where(state.steps, 20 * self._max_starts, min(state.loss, 1.0))

    def finished(self, state: LayersState) -> Stop | None:
        """When starts agree, or none is left."""
        if state.phase != DONE:
            return None
        return self._stop(state.best, state.found)

    def advance(self, state: LayersState, session: Session) -> LayersState:
        """One phase."""
        act = {
            WIDE: self._from_noise,
            PRUNE: self._prune,
            SETTLE: self._settle,
            ROUND: self._round,
            COMPARE: self._compare,
            POLISH: self._polish,
        }[state.phase]
        return replace(act(state, session), steps=state.steps + 1)

    def give_up(self, state: LayersState, stop: Stop, session: Session) -> SearchResult:
        """The rows that miss least, or those that contribute most of what there is."""
        rows = state.best if len(state.best) else state.rows
        if len(rows) > self.count:
            assert state.equation is not None
            contributions = state.equation.contributions(state.equation.at(rows))
            rows = rows[contributions.argsort(descending=True)[: self.count]]
        numbers = (rows, len(rows), stop, self.problem, state.starts, state.steps)
        return LayersFound(*numbers, found=state.found)

    def _solve(
        self,
        state: LayersState,
        rows: torch.Tensor,
        rule: StoppingRule,
        session: Session,
        damping: Damping | None = None,
        cg: CGOptions | None = None,
    ) -> LMState[PathPoint]:
        assert state.equation is not None
        return levenberg_marquardt(
            state.equation,
            rows,
            self.norms,
            rule,
            cg=cg or self._tuning.cg,
            damping=damping or Damping(least=self._tuning.least_damping),
            should_stop=lambda point: session.budget_spent() is not None,
        )

    def _contributions(self, state: LayersState) -> torch.Tensor:
        assert state.equation is not None
        return state.equation.contributions(state.equation.at(state.rows))

    def _from_noise(self, state: LayersState, session: Session) -> LayersState:
        """A few steps with more rows than samples."""
        damping = Damping(state.damping, self._tuning.least_damping)
        end = self._solve(state, state.rows, self._tuning.start, session, damping)
        more = state.tries + 1 < self._tuning.start_solves
        state = replace(state, rows=end.point.rows, loss=end.point.loss, damping=end.damping)
        return replace(state, phase=WIDE if more else PRUNE, tries=state.tries + 1 if more else 0)

    def _prune(self, state: LayersState, session: Session) -> LayersState:
        """The row of least contribution dropped; a longer solve once there are n."""
        rows = state.rows
        if len(rows) > self.count:
            least = int(self._contributions(state).argmin())
            rows = torch.cat([rows[:least], rows[least + 1 :]])
        last = len(rows) <= self.count
        point = self._solve(state, rows, self._tuning.settle if last else self._tuning.prune, session).point
        state = replace(state, rows=point.rows, loss=point.loss)
        return self._after_pruning(state) if last else state

    def _after_pruning(self, state: LayersState) -> LayersState:
        """On to new paths; a round that has not gained is undone and ends the start."""
        none = state.rows[:0]
        if len(state.before_round) and state.loss > self._tuning.gained * state.loss_before:
            return replace(state, rows=state.before_round, loss=state.loss_before, before_round=none, phase=COMPARE)
        return replace(state, phase=SETTLE, tries=0, miss=math.inf, before_round=none)

    def _settle(self, state: LayersState, session: Session) -> LayersState:
        """A new path and a fit on it, until the path's end comes no nearer and no row moves far."""
        tuning, begun, before = self._tuning, state.miss, state.rows
        done = state.crossing or len(state.found)
        equation, miss = self.curved(state.rows, tuning.nodes)
        if miss > begun:  # the path before was better and is kept
            return replace(state, phase=COMPARE if done or begun < tuning.collapsed else ROUND)
        state = replace(state, path_rows=state.rows, equation=equation, miss=miss)
        point = self._solve(state, state.rows, tuning.settle, session).point
        moved = float(((point.rows - before).norm(dim=1) / before.norm(dim=1)).max())
        more = (miss < tuning.settled * begun or moved > tuning.still) and state.tries + 1 < tuning.paths
        state = replace(state, rows=point.rows, loss=point.loss)
        then = COMPARE if done or miss < tuning.collapsed else ROUND
        return replace(state, phase=SETTLE if more else then, tries=state.tries + 1)

    def _round(self, state: LayersState, session: Session) -> LayersState:
        """Replaces the rows of least contribution by twice as many of noise."""
        tuning = self._tuning
        kept = self._contributions(state).argsort()[math.floor(tuning.dropped * self.count) :]
        rows = torch.cat([state.rows[kept], self._noise(tuning.added, session.generator)])
        state = replace(state, before_round=state.rows, loss_before=state.loss, rows=rows)
        return replace(state, phase=WIDE, tries=0, damping=Damping.start)

    def _compare(self, state: LayersState, session: Session) -> LayersState:
        """A start or a crossing has ended: compare it with the others, then cross, begin another start, or polish."""
        before, tuning = state.best, self._tuning
        state, ended = self._compared(state)
        if ended:
            return replace(state, phase=POLISH, rows=state.best, miss=math.inf, tries=0)
        state = replace(state, phase=WIDE, tries=0, damping=Damping.start, miss=math.inf)
        # Further rows start from noise too, but on the best path so far: there the truth leaves far less.
        state = replace(state, path_rows=state.best, equation=self.curved(state.best, tuning.nodes)[0])
        if len(before) and not state.crossing:
            both = torch.cat([before, self._different(state.rows, before)])
            return replace(state, rows=both, crossing=True)
        noise = self._noise(tuning.wide, session.generator)
        return replace(state, rows=noise, crossing=False, starts=state.starts + 1)

    def _polish(self, state: LayersState, session: Session) -> LayersState:
        """The best rows on paths with more nodes, until these come no nearer to the trained weights."""
        tuning, begun = self._tuning, state.miss
        equation, miss = self.curved(state.rows, tuning.last_nodes)
        if miss < begun:
            state = replace(state, best=state.rows, best_miss=miss, miss=miss)
        if miss > tuning.settled * begun or state.tries >= tuning.paths:
            return replace(state, phase=DONE)
        state = replace(state, path_rows=state.rows, equation=equation)
        damping = Damping(tuning.last_damping)
        point = self._solve(state, state.rows, tuning.polish, session, damping, tuning.last_cg).point
        return replace(state, rows=point.rows, loss=point.loss, tries=state.tries + 1)
