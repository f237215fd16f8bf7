"""The search for the training samples of a network with a pooled head, from noise, by the channel equation.

A few more rows than samples are drawn from noise and solved by themselves. They are solved once more together with the
rows found so far, and the n that contribute most are kept if the loss falls: every draw brings some samples that the
others have mixed. Once draws bring nothing, the path of training is simulated with the rows, and they are fitted on
it. ReLUs are smooth in all of this, and sharper in the last fits. Then the next start begins from noise. Where two
starts differ, their rows are solved together; two that agree are enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from exhume.attacks._base.problem import Problem
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import NOT_SAVED, SearchResult, Where
from exhume.attacks._search.layers import LayersSearch
from exhume.attacks._search.on_paths import LayersFound, PathState, SearchOnPaths, too_large
from exhume.equation.channels import ChannelEquation, ChannelPoint
from exhume.equation.path import Nodes
from exhume.equation.pooled_head import PooledHead, find_pooled_head
from exhume.equation.trained_network import TrainedNetwork, Weights
from exhume.results.stop import Stop
from exhume.solvers import Damping, StoppingRule, levenberg_marquardt

# Phases of a start and of the crossing with another, about.
_STEPS = 40
# Share of a channel's numbers that free coefficients may take: beyond it, noise fits as well as samples.
_MOST = 0.5

DRAW, SETTLE, SHARPEN, COMPARE, DONE = "draw", "settle", "sharpen", "compare", "done"


@dataclass(frozen=True)
class PooledState(PathState):
    """Where the search stands; a start has no rows before its first draw, and then n.

    Attributes:
        stalled: draws in a row that brought nothing.
        path: nodes of the current path.
    """

    stalled: int = 0
    path: tuple[Weights, ...] = field(default=(), metadata=NOT_SAVED)


class PooledSearch(SearchOnPaths[PooledState]):
    """Looks for n samples whose gradients in the last convolution add up to its displacement, channel by channel.

    Args:
        problem, network, nodes, max_starts: as for every search on paths.
        head: the convolution.
    """

    state_type = PooledState

    def __init__(
        self, problem: Problem, network: TrainedNetwork, nodes: Nodes, max_starts: int, head: PooledHead
    ) -> None:
        super().__init__(problem, network, nodes, max_starts)
        self._head, self._pooled = head, problem.tuning.layers.pooled

    def begin(self, generator: torch.Generator) -> PooledState:
        """No rows, and the straight line."""
        none = torch.zeros((0, self.problem.features.input_dim)).to(self._like)
        return self.restore(PooledState(DRAW, none, none, none, none))

    def restore(self, state: PooledState) -> PooledState:
        """The path is simulated again."""
        if not len(state.path_rows):
            return replace(state, path=tuple(self.network.straight(self._tuning.ends)))
        sharpened = state.phase == COMPARE or (state.phase == SHARPEN and state.tries)
        count = self._pooled.last_nodes if sharpened else self._pooled.nodes
        return replace(state, path=self.path(state.path_rows, count)[0])

    def where(self, state: PooledState) -> Where:
        """The loss is that of the current rows."""
        return Where(state.steps, _STEPS * self._max_starts, min(state.loss, 1.0))

    def finished(self, state: PooledState) -> Stop | None:
        """When starts agree, or none is left."""
        return self._stop(state.best, state.found) if state.phase == DONE else None

    def advance(self, state: PooledState, session: Session) -> PooledState:
        """One phase, or a part of it."""
        act = {DRAW: self._draw, SETTLE: self._settle, SHARPEN: self._sharpen, COMPARE: self._compare}[state.phase]
        return replace(act(state, session), steps=state.steps + 1)

    def give_up(self, state: PooledState, stop: Stop, session: Session) -> SearchResult:
        """The rows that miss least, those of the only start, or noise if there are none."""
        rows = state.best if len(state.best) else state.rows
        rows = rows if len(rows) else self._noise(1.0, session.generator)
        numbers = (rows, len(rows), stop, self.problem, state.starts, state.steps)
        return LayersFound(*numbers, found=state.found)

    def _draw(self, state: PooledState, session: Session) -> PooledState:
        """Noise, solved by itself and then with the rows; the next phase once that brings nothing."""
        tuning, rows = self._pooled, self._noise(self._pooled.drawn, session.generator)
        for sharpness, rule in ((tuning.wide, tuning.draw), (tuning.usual, tuning.fit)):
            rows = self._solve(self._equation(state, sharpness), rows, rule, session).rows
            if session.budget_spent() is not None:
                return state if len(state.rows) else replace(state, rows=rows[: self.count])
        state = self._crossed(state, rows, session)
        return replace(state, phase=SETTLE, tries=0) if state.stalled >= tuning.patience else state

    def _crossed(self, state: PooledState, others: torch.Tensor, session: Session) -> PooledState:
        """The state's rows and others solved together and pruned to n; kept if that lowers the loss."""
        tuning, equation = self._pooled, self._equation(state, self._pooled.usual)
        rows = torch.cat([state.rows, self._different(others, state.rows)])
        point = self._solve(equation, rows, tuning.joint, session)
        while len(point.rows) > self.count:
            left = max(self.count, len(point.rows) - math.ceil(tuning.dropped * len(point.rows)))
            kept = equation.contributions(point).argsort(descending=True)[:left].sort().values
            point = self._solve(equation, point.rows[kept], tuning.prune, session)
            if session.budget_spent() is not None:
                break
        if session.budget_spent() is not None and len(state.rows):
            return state
        point = self._solve(equation, point.rows, tuning.fit, session)
        gained = point.loss < tuning.gained * state.loss
        if point.loss < state.loss:
            state = replace(state, rows=point.rows, loss=point.loss)
        return replace(state, stalled=0 if gained else state.stalled + 1)

    def _settle(self, state: PooledState, session: Session) -> PooledState:
        """A new path and a fit on it, until its end comes no nearer."""
        tuning = self._pooled
        path, miss = self.path(state.rows, tuning.nodes)
        if state.tries and miss > tuning.settled * state.miss:
            return replace(state, phase=SHARPEN, tries=0)
        state = replace(state, path_rows=state.rows, path=path, miss=miss, tries=state.tries + 1)
        point = self._solve(self._equation(state, tuning.usual), state.rows, tuning.fit, session)
        return replace(state, rows=point.rows, loss=point.loss)

    def _sharpen(self, state: PooledState, session: Session) -> PooledState:
        """A path with more nodes, and a fit on it with sharper ReLUs."""
        tuning = self._pooled
        path, miss = self.path(state.rows, tuning.last_nodes)
        if state.tries == len(tuning.last):
            return replace(state, phase=COMPARE, miss=miss)
        state = replace(state, path_rows=state.rows, path=path, miss=miss)
        point = self._solve(self._equation(state, tuning.last[state.tries]), state.rows, tuning.fit, session)
        return replace(state, rows=point.rows, loss=point.loss, tries=state.tries + 1)

    def _compare(self, state: PooledState, session: Session) -> PooledState:
        """A start or a crossing has ended: compare it with the others, then cross, begin another start, or end."""
        before = state.best
        state, ended = self._compared(state)
        if ended:
            return replace(state, phase=DONE)
        if len(before) and not state.crossing:
            loss = self._equation(state, self._pooled.usual).at(state.rows).loss
            state = self._crossed(replace(state, loss=loss, crossing=True), before, session)
            return replace(state, phase=SETTLE, tries=0)
        none, starts = state.rows[:0], state.starts + 1
        state = replace(state, phase=DRAW, rows=none, path_rows=none, loss=math.inf, starts=starts)
        return self.restore(replace(state, crossing=False, stalled=0, tries=0))

    def _equation(self, state: PooledState, sharpness: float) -> ChannelEquation:
        return ChannelEquation(self._head, state.path, sharpness, self._nodes.known, self.problem.features.count)

    def _solve(
        self, equation: ChannelEquation, rows: torch.Tensor, rule: StoppingRule, session: Session
    ) -> ChannelPoint:
        return levenberg_marquardt(
            equation,
            rows,
            self.norms,
            rule,
            cg=self._pooled.cg,
            damping=Damping(least=self._tuning.least_damping),
            should_stop=lambda point: session.budget_spent() is not None,
        ).point


def layers_search(problem: Problem, network: TrainedNetwork, nodes: Nodes, max_starts: int) -> SearchOnPaths[Any]:
    """The search that fits the network: by channels if its head is pooled and they tell enough."""
    model = problem.target.known_model
    head = None if model is None else find_pooled_head(network, model.head, nodes.names, problem.sphere.radius)
    if head is None or not _tells(head, problem, nodes) or too_large(problem, network, nodes.names):
        return LayersSearch(problem, network, nodes, max_starts)
    return PooledSearch(problem, network, nodes, max_starts, head)


def _tells(head: PooledHead, problem: Problem, nodes: Nodes) -> bool:
    """Whether coefficients leave most numbers of a channel, and all channels together more than there are unknowns."""
    tuning, count = problem.tuning.layers.pooled, problem.num_samples or 0
    known = 0 if nodes.known is None else len(nodes.known)
    channels, numbers = head.flat(head.network.after).shape
    in_draws = tuning.nodes * (math.ceil((1 + tuning.drawn) * count) + known)
    in_crossings = tuning.last_nodes * (2 * count + known)
    equations = channels * (numbers - tuning.last_nodes * (count + known))
    return max(in_draws, in_crossings) < _MOST * numbers and equations > count * problem.features.input_dim
