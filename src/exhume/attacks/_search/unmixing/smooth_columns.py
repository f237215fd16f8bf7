"""The search for the columns of a first layer's displacement where the activation has no exact zeros.

Every round fits a batch of random inputs one by one, accepts those that fit and are new, and fits all accepted ones
together. Inputs not yet found are orthogonal to known directions, and so are their columns. Once there are n, training
is simulated on them for the nodes of the path; samples that then fit much worse than the others are dropped, and the
search goes on with these nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from exhume.attacks._base.problem import Problem
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import NOT_SAVED, Search, SearchResult, Where
from exhume.attacks._search.training_path import curved_nodes
from exhume.attacks._search.unmixing.column_fits import Alone, Together, fit_alone, fit_together
from exhume.attacks._search.unmixing.sample_spaces import InputFrame, Nodes, ReadNetwork
from exhume.results.stop import Stop

Tensor = torch.Tensor


@dataclass(frozen=True)
class SmoothState:
    """Everything that the next round depends on.

    Attributes:
        inputs, columns, residuals: of the samples found so far.
        best_inputs, best_residual: of the best complete set, after the fit on a simulated path; (0, n) if none.
        path_inputs: that the path was simulated with; (0, n) for the straight line.
        floor: misfit that is always accepted.
        rounds, idle, fruitless: rounds made; those since a sample was added; complete fits that did not improve.
        done: whether to stop.
        nodes: of the path.
    """

    inputs: Tensor
    columns: Tensor
    residuals: Tensor
    best_inputs: Tensor
    path_inputs: Tensor
    floor: float
    best_residual: float = 1.0
    rounds: int = 0
    idle: int = 0
    fruitless: int = 0
    done: bool = False
    nodes: Nodes | None = field(default=None, metadata=NOT_SAVED)

    @property
    def best(self) -> Tensor:
        """The inputs of the best complete set, or those found so far."""
        return self.best_inputs if len(self.best_inputs) else self.inputs

    @property
    def found(self) -> Together:
        """The samples found so far."""
        return Together(self.inputs, self.columns, self.residuals)

    def having(self, found: Together) -> SmoothState:
        """The same with other samples."""
        return replace(self, inputs=found.inputs, columns=found.columns, residuals=found.residuals)


class SmoothSearch(Search[SmoothState]):
    """Looks for the n inputs of a displacement. The rows of its result are inputs in coordinates.

    Args:
        problem: that the displacement belongs to.
        network: whose first layer was displaced.
        known: columns (h, q) of samples that are not looked for.
        known_rows: nearly their inputs [x 1], (q, d + 1), for the path of training.
    """

    state_type = SmoothState

    def __init__(
        self,
        problem: Problem,
        network: ReadNetwork,
        known: Tensor | None = None,
        known_rows: Tensor | None = None,
    ) -> None:
        self.problem, self.network, self.frame = problem, network, InputFrame.of(network.moved, known)
        self._known_rows = self.frame.right[:0] if known_rows is None else known_rows
        self.count, self._tuning = self.frame.rank, problem.tuning.smooth

    def begin(self, generator: torch.Generator) -> SmoothState:
        """No sample yet, and the straight path."""
        none = torch.zeros((0, self.count)).to(self.frame.basis)
        columns = torch.zeros((0, len(self.frame.basis))).to(none)
        return self.restore(SmoothState(none, columns, none[:, 0], none, none, self._tuning.floor))

    def restore(self, state: SmoothState) -> SmoothState:
        """The nodes are computed again."""
        if len(state.path_inputs):
            return replace(state, nodes=self.curved(state.path_inputs, self._tuning.path_nodes[-1])[0])
        return replace(state, nodes=Nodes(self.network, self.frame, self.network.straight(self._tuning.straight)))

    def where(self, state: SmoothState) -> Where:
        """The loss is the residual of the best complete set."""
        return Where(state.rounds, self._tuning.rounds, state.best_residual)

    def finished(self, state: SmoothState) -> Stop | None:
        """A complete set that is not improved further, or no rounds left."""
        if state.done or state.rounds >= self._tuning.rounds:
            return Stop.FLOOR if len(state.best_inputs) else Stop.STARTS_SPENT
        return None

    def advance(self, state: SmoothState, session: Session) -> SmoothState:
        """One round: more samples, or, once there are n, the fit on a simulated path."""
        tuning = self._tuning
        if len(state.inputs) == self.count:
            return self._on_path(state)
        state = self._add(state, session.generator)
        found = state.found
        if len(found) == self.count or state.idle < tuning.idle:
            return state
        if len(found) < tuning.most * self.count:  # wrong ones may be in the way of others
            kept = found.residuals.argsort()[: len(found) - 1 - len(found) // 4]
            return replace(state.having(found.only(kept)), floor=tuning.floor, idle=0)
        assert state.nodes is not None
        completed = fit_together(state.nodes, self._completed(found), tuning.path_steps, tuning)
        return replace(state.having(completed), idle=0)

    def give_up(self, state: SmoothState, stop: Stop, session: Session) -> SearchResult:
        """The best complete set, or what was found of one."""
        starts = state.rounds * self._tuning.batch
        return SearchResult(state.best, len(state.best), stop, self.problem, starts, state.rounds)

    def samples(self, inputs: Tensor) -> Tensor:
        """Flat inputs of the network (m, d) from those in coordinates: without the normalisation before the layer.

        Those of the known inputs follow.
        """
        first, rows = self.network.moved.first, torch.cat([inputs @ self.frame.right, self._known_rows])
        given = rows[:, :-1] / rows[:, -1:] if self.network.moved.has_bias else rows
        return (given - first.shift.to(given)) / first.scale.to(given)

    def curved(self, inputs: Tensor, count: int) -> tuple[Nodes, float]:
        """Nodes on the path of training on the inputs, and how far its end misses the trained weights."""
        weights, miss = curved_nodes(self.network, self.samples(inputs), count, self._tuning)
        return Nodes(self.network, self.frame, weights), miss

    def refit(self, inputs: Tensor, count: int) -> tuple[Together, float]:
        """A complete set fitted on the path that is simulated with it."""
        nodes, miss = self.curved(inputs, count)
        simulated = self.count + len(self._known_rows)
        self.problem.features.count(self.count * self._tuning.path_steps * count + simulated * self._tuning.simulated)
        start = Together(inputs, self.frame.columns(inputs), torch.ones_like(inputs[:, 0]))
        return fit_together(nodes, start, self._tuning.path_steps, self._tuning), miss

    def _add(self, state: SmoothState, generator: torch.Generator) -> SmoothState:
        """A batch of starts; those that fit are added, and all are fitted together."""
        tuning, found, nodes = self._tuning, state.found, state.nodes
        assert nodes is not None
        single = nodes.to(torch.float32)
        missing = self.count - len(found)
        batch = tuning.batch if not len(found) else max(tuning.batch // 2, min(tuning.batch, 4 * missing))
        starts = self._starts(nodes, found, batch, generator)
        self.problem.features.count(batch * tuning.steps * len(nodes))
        share = tuning.deflation[state.rounds % len(tuning.deflation)]
        known = torch.linalg.qr((found.inputs / self.frame.sizes).T)[0]
        tried = fit_alone(single, starts.float(), known.float(), share, tuning)
        level = max(
            [state.floor, float(tried.misfits.min()), *([float(found.residuals.median())] if len(found) else [])]
        )
        more = self._accepted(found, tried, tuning.accepted * level)
        state = replace(state, rounds=state.rounds + 1, idle=state.idle + 1)
        if not len(more):
            return replace(state, floor=1.3 * state.floor)
        scale = ((tried.columns[more] / self.frame.sizes) * tried.inputs[more]).sum(1, keepdim=True)
        columns = (tried.columns[more] / scale) @ self.frame.basis.T
        inputs = torch.cat([found.inputs, tried.inputs[more]])
        together = Together(inputs, torch.cat([found.columns, columns]), inputs[:, 0])
        fitted = fit_together(nodes, together, tuning.joint_steps, tuning)
        if len(fitted) < self.count:
            limit = max(2.5 * float(fitted.residuals.median()), 2 * state.floor)
            fitted = fitted.only(fitted.residuals <= limit)
        return replace(state, idle=0).having(fitted)

    def _starts(self, nodes: Nodes, found: Together, batch: int, generator: torch.Generator) -> Tensor:
        """Random inputs; half of them orthogonal to the directions of the columns found."""
        directions = self.frame.directions
        drawn = torch.randn((batch, directions.shape[1]), generator=generator, dtype=torch.float64).to(directions)
        sizes = 10 ** (torch.rand((batch, 1), generator=generator, dtype=torch.float64) - self._tuning.smallest)
        ways = drawn @ directions.T
        if 0 < len(found) < self.count - 1:
            taken = torch.linalg.qr((found.columns @ self.frame.basis / self.frame.sizes).T)[0]
            ways[::2] = (ways[::2] - (ways[::2] @ taken) @ taken.T) @ directions @ directions.T
        spread = (nodes.activations(ways) - nodes.activations(0 * ways)).std(1, keepdim=True).clamp_min(1e-30)
        return self.frame.origin + ways / spread * sizes.to(ways)

    def _accepted(self, found: Together, tried: Alone, limit: float) -> list[int]:
        """Which inputs fit, best first, and are neither found already nor combinations of columns that are."""
        span = torch.linalg.qr((found.columns @ self.frame.basis).T)[0]
        inputs, chosen = found.inputs, []
        for at in tried.misfits.argsort().tolist():
            if len(inputs) >= self.count or float(tried.misfits[at]) > limit:
                break
            column, row = tried.columns[at], tried.inputs[at]
            rest = column - span @ (span.T @ column)
            apart = (inputs - row).norm(dim=1) / row.norm()
            if float(rest.norm()) < self._tuning.independent or bool((apart < self._tuning.apart).any()):
                continue
            chosen.append(at)
            inputs = torch.cat([inputs, row[None]])
            span = torch.cat([span, (rest / rest.norm())[:, None]], 1)
        return chosen

    def _completed(self, found: Together) -> Together:
        """The samples found and, for those missing, inputs orthogonal to the directions of their columns."""
        frame, count = self.frame, len(found)
        left = torch.linalg.svd(found.columns @ frame.basis / frame.sizes)[2][count:]
        ways = left
        if self.network.moved.has_bias:
            last = left @ frame.right[:, -1]
            left = left / torch.where(last.abs() < 1e-3, torch.full_like(last, 1e-3), last)[:, None]
            ways = (left - frame.origin) @ frame.directions @ frame.directions.T
        usual = 1.5 * found.inputs.norm(dim=1).median()
        more = frame.origin + ways * (usual / left.norm(dim=1, keepdim=True)).clamp_max(1.0)
        inputs = torch.cat([found.inputs, more])
        return Together(inputs, frame.columns(inputs), inputs[:, 0])

    def _on_path(self, state: SmoothState) -> SmoothState:
        """A complete set fitted on simulated paths; then those that fit worst dropped, unless that has not helped."""
        tuning, fitted, path = self._tuning, state.found, state.inputs
        for count in tuning.path_nodes:
            path = fitted.inputs
            fitted, _ = self.refit(path, count)
        residual = float(fitted.residuals.square().mean().sqrt())
        best = fitted.inputs if residual < state.best_residual else state.best_inputs
        fruitless = 0 if residual < tuning.improved * state.best_residual else state.fruitless + 1
        state = replace(
            state,
            best_inputs=best,
            best_residual=min(residual, state.best_residual),
            path_inputs=path,
            rounds=state.rounds + 1,
            fruitless=fruitless,
        )
        middle = float(fitted.residuals.median())
        bad = fitted.residuals > max(tuning.outlier * middle, tuning.small)
        if not bool(bad.any()) or fruitless >= tuning.fruitless:
            return replace(state.having(fitted), done=True)
        kept = ~bad
        kept[fitted.residuals.argsort(descending=True)[max(1, self.count // 3) :]] = True
        state = replace(state, floor=max(tuning.small, tuning.accepted * middle), idle=0)
        return self.restore(state.having(fitted.only(kept)))
