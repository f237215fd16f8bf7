"""What searches on the path of training share: the network, its simulated paths, and how starts are compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import torch

from exhume.attacks._base.problem import Problem
from exhume.attacks._base.stage import Search, SearchResult
from exhume.attacks._search.training_path import curved_nodes
from exhume.equation.norms import FixedNorm, FreeNorm, Norms
from exhume.equation.path import MEMORY_BUDGET, Nodes, PathEquation
from exhume.equation.trained_network import TrainedNetwork, Weights
from exhume.results.stop import Stop


@dataclass(frozen=True)
class PathState:
    """Where a search on paths stands.

    Attributes:
        phase: what is done next.
        rows: (m, d), the current candidates.
        path_rows: (n, d) that the path was simulated with; none for the straight line.
        found: (s n, d), what independent starts ended with.
        best, best_miss: (n, d), the rows that miss least of all.
        loss: of the current rows.
        miss: of the path's end from the trained weights, over the displacement.
        tries: solves of this kind in a row.
        starts: independent starts made; the current one included.
        crossing: whether the current rows are those of two starts together.
        steps: of any phase so far.
    """

    phase: str
    rows: torch.Tensor
    path_rows: torch.Tensor
    found: torch.Tensor
    best: torch.Tensor
    best_miss: float = math.inf
    loss: float = math.inf
    miss: float = math.inf
    tries: int = 0
    starts: int = 1
    crossing: bool = False
    steps: int = 0


State = TypeVar("State", bound=PathState)


@dataclass(frozen=True)
class LayersFound(SearchResult):
    """What the search found: also what independent starts ended with (s n, d)."""

    found: torch.Tensor = field(default_factory=lambda: torch.empty(0))


class SearchOnPaths(Search[State]):
    """A search for n samples by equations at nodes on the path of training.

    Args:
        problem: what is solved.
        network: the model at both ends of training.
        nodes: the parameters that are read, and known samples; its weights are replaced by nodes of paths.
        max_starts: independent starts at most.
    """

    def __init__(self, problem: Problem, network: TrainedNetwork, nodes: Nodes, max_starts: int) -> None:
        assert problem.num_samples is not None
        self.problem, self.network, self.count = problem, network, problem.num_samples
        self._nodes, self._tuning, self._max_starts = nodes, problem.tuning.layers, max_starts

    @property
    def norms(self) -> Norms:
        """Free, and bounded: a row of little contribution may leave for infinity."""
        sphere = self.problem.sphere
        if not self.problem.norms_open:
            return FixedNorm(sphere.radius)
        return FreeNorm(sphere.radius, high=self._tuning.largest)

    def path(self, rows: torch.Tensor, count: int) -> tuple[tuple[Weights, ...], float]:
        """Nodes of the path of training on the rows, and how far that path misses its end."""
        known = self._nodes.known
        samples = rows if known is None else torch.cat([rows, known.to(rows)])
        weights, miss = curved_nodes(self.network, samples, count, self.problem.tuning.smooth)
        self.problem.features.count(2 * len(samples) * self.problem.tuning.smooth.simulated)
        return tuple({name: each.to(self._like) for name, each in node.items()} for node in weights), miss

    def curved(self, rows: torch.Tensor, count: int) -> tuple[PathEquation, float]:
        """The equation at nodes of the path of training on the rows, and how far that path misses its end."""
        weights, miss = self.path(rows, count)
        return self._at(weights), miss

    def confirmations(self, rows: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        """For every row how many independent starts ended with it, (n,)."""
        return (self._apart(rows, found) < self._tuning.agree).sum(0)

    def disagreement(self, rows: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        """For every row its relative distance to the second of the starts that are next to it, (n,); needs two."""
        return self._apart(rows, found).sort(0).values[1]

    def _compared(self, state: State) -> tuple[State, bool]:
        """A start or a crossing that has ended is compared with the others; whether they agree or no start is left."""
        first = not len(state.best)
        if not state.crossing:
            state = replace(state, found=torch.cat([state.found, state.rows]))
        if state.miss < state.best_miss:
            state = replace(state, best=state.rows, best_miss=state.miss)
        agreed = bool((self.confirmations(state.best, state.found) > 1).all())
        return state, agreed or (state.starts >= self._max_starts and (state.crossing or first))

    def _stop(self, rows: torch.Tensor, found: torch.Tensor) -> Stop:
        """Whether a search that is done ended with rows that two starts found."""
        return Stop.REPRODUCED if bool((self.confirmations(rows, found) > 1).any()) else Stop.STARTS_SPENT

    def _different(self, rows: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        """Rows that are not among the others."""
        apart = torch.cdist(rows, others) / rows.norm(dim=1, keepdim=True)
        return rows[(apart >= self._tuning.agree).all(1)]

    def _apart(self, rows: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        """Relative distance of every row to the nearest one that each start ended with, (s, n)."""
        starts = found.reshape(-1, self.count, rows.shape[1])
        return torch.cdist(rows[None], starts).amin(2) / rows.norm(dim=1)

    @property
    def _like(self) -> torch.Tensor:
        return next(iter(self.network.after.values()))

    @property
    def straight(self) -> tuple[PathEquation, float]:
        """The equation at nodes on the straight line, whose end is that of training."""
        return self._at(self.network.straight(self._tuning.ends)), 0.0

    def _at(self, weights: Sequence[Weights]) -> PathEquation:
        nodes = replace(self._nodes, weights=tuple(weights))
        return PathEquation(self.network, nodes, count=self.problem.features.count)

    def _noise(self, share: float, generator: torch.Generator) -> torch.Tensor:
        """Gaussian rows of the usual norm, so many for each sample."""
        count, dim = math.ceil(share * self.count), self.problem.features.input_dim
        drawn = torch.randn((count, dim), generator=generator).to(self._like)
        return self.norms.retract(drawn * (self.norms.radius / math.sqrt(dim)))


def too_large(problem: Problem, network: TrainedNetwork, names: Sequence[str]) -> bool:
    """Whether the gradients of all samples at all nodes exceed the memory budget of the path equation."""
    assert problem.num_samples is not None
    numbers = sum(network.after[name].numel() for name in names)
    rows = problem.num_samples * len(network.readout) * problem.tuning.layers.last_nodes
    return 4 * numbers * rows > MEMORY_BUDGET
