"""Columns of a ReLU layer from estimates of their samples, where random inputs lead to no more of them.

With few neurons for each sample, zeros alone do not lead from a random input to a column. What a sample can have sent
back to the layer does: the search without zeros, with smooth functions in the place of ReLUs, estimates the samples
roughly, and from there the zeros of many columns can be found exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, islice

import torch

from exhume.attacks._base.problem import Problem
from exhume.attacks._search.unmixing.columns import Candidates, columns_of_inputs, leverage_margin
from exhume.attacks._search.unmixing.missing_columns import known_inputs
from exhume.attacks._search.unmixing.mixture import Mixture, Tensor, distinct, mean_diagonal
from exhume.attacks._search.unmixing.sample_spaces import ReadNetwork, is_curved
from exhume.attacks._search.unmixing.smooth_columns import SmoothSearch, SmoothState
from exhume.target.dense_displacement import DenseDisplacement

# Vectors with a smaller singular value are dependent.
_SINGULAR = 1e-6
# Cosines above which two vectors are the same column, and above which the same vector was found twice.
_SAME, _EQUAL = 0.99, 0.9999
# Added to the diagonal of normal equations, over its mean.
_RIDGE = 1e-3
# Part of an estimate that must be left without the inputs of known columns, or it is one of these.
_LEFT = 0.3
# Vectors that are compared with all others at a time.
_BLOCK = 512
# Smallest last entry of an input [x 1], over the largest, before it is made one.
_LEAST_ONE = 0.1


@dataclass(frozen=True)
class EstimationState:
    """A running search for estimates, and then for the columns next to them.

    Attributes:
        sharpness: of smooth functions in the place of ReLUs.
        known: columns that were known at its beginning, (m, n).
        known_rows: nearly their inputs [x 1], (m, d + 1).
        smooth: of the search for estimates.
        reached: vectors that weightings of the estimates have led to, (p, n).
        idle: rounds of weightings since a new column was found.
        fruitful: whether any was.
    """

    sharpness: float
    known: Tensor
    known_rows: Tensor
    smooth: SmoothState
    reached: Tensor
    idle: int = 0
    fruitful: bool = False


class Estimation:
    """Estimates of the samples whose columns are not known, and the columns next to them.

    Args:
        problem: that the displacement belongs to.
        mixture: the displacement in coordinates.
        moved: the displacement.
    """

    def __init__(self, problem: Problem, mixture: Mixture, moved: DenseDisplacement) -> None:
        self._problem, self._mixture, self._moved = problem, mixture, moved

    @property
    def possible(self) -> bool:
        """Whether all weights before training are known, ReLUs can be made smooth, and the samples are few enough."""
        model = self._problem.target.known_model
        known = model is not None and set(model.trained) <= set(model.initial)
        few = 1 < self._mixture.rank <= self._mixture.tuning.most_drawn
        return known and few and is_curved(self._network(1.0))

    def begin(self, vectors: Tensor, generator: torch.Generator) -> EstimationState:
        """The first state besides the samples of known columns (m, n)."""
        low, high = (math.log(each) for each in self._mixture.tuning.sharpness)
        sharpness = math.exp(low + (high - low) * float(torch.rand((), generator=generator)))
        rows = known_inputs(self._mixture, vectors) @ self._moved.spectrum.right
        if self._moved.has_bias and len(rows):
            last = rows[:, -1:]
            rows = rows / last.clamp_min(_LEAST_ONE * float(last.abs().max()))
        elif len(rows):
            rows = rows * math.sqrt(rows.shape[1])
        search = SmoothSearch(self._problem, self._network(sharpness), self._columns(vectors), rows)
        return EstimationState(sharpness, vectors, rows, search.begin(generator), vectors[:0])

    def search(self, state: EstimationState) -> SmoothSearch:
        """The search that a state belongs to."""
        known = self._columns(state.known)
        return SmoothSearch(self._problem, self._network(state.sharpness), known, state.known_rows)

    def _columns(self, vectors: Tensor) -> Tensor:
        return self._moved.spectrum.left @ vectors.T

    def _network(self, sharpness: float) -> ReadNetwork:
        model = self._problem.target.known_model
        assert model is not None
        return ReadNetwork(model, self._moved, self._problem.target.input_shape, sharpness)

    def columns(self, vectors: Tensor, state: EstimationState, generator: torch.Generator) -> Candidates:
        """Columns from many weightings of the estimates, but for those of samples whose columns (m, n) are known."""
        mixture, search, spectrum = self._mixture, self.search(state), self._moved.spectrum
        estimates, frame = state.smooth.best, search.frame
        columns = frame.columns(estimates) if len(estimates) == search.count else state.smooth.columns
        inputs, own = estimates @ (frame.right @ spectrum.right.T), columns @ spectrum.left  # (r, n) each
        space = mixture.open_inputs(vectors)
        left = (inputs @ space).norm(dim=1) / inputs.norm(dim=1)
        open_ones = left >= min(_LEFT, float(left.max()))
        inputs = inputs[open_ones] @ space @ space.T
        own = _without(mixture, vectors, own[open_ones], inputs)
        times = -(-mixture.tuning.weightings // len(inputs))
        return columns_of_inputs(mixture, inputs.repeat(times, 1), own.repeat(times, 1), generator)


def _without(mixture: Mixture, vectors: Tensor, estimates: Tensor, inputs: Tensor) -> Tensor:
    """Estimated columns (r, n), known up to the columns (m, n): with the multiples that fit inactive neurons best."""
    if len(vectors):
        idle = (torch.maximum(*mixture.activations(inputs)) < 0).to(vectors)  # (r, h)
        known, own = mixture.columns(vectors), mixture.columns(estimates)
        normal = (idle[:, None, :] * known) @ known.T  # (r, m, m)
        ridge = (_RIDGE * mean_diagonal(normal)).clamp_min(1e-9)  # an input may leave no neuron inactive
        normal = normal + ridge * torch.eye(len(known)).to(own)
        multiples = torch.linalg.solve(normal, (idle * own) @ known.T)
        estimates = estimates - multiples @ vectors
    return torch.nn.functional.normalize(estimates, dim=1)


def repeated(mixture: Mixture, vectors: Tensor, times: int) -> Tensor:
    """Those of the vectors (p, n) that are there so many times, each once, the most frequent first.

    Random weightings lead to a right column again and again, and to a wrong one once or twice, even if zeros hardly
    determine either.
    """
    parts = [((part @ vectors.T).abs() > _EQUAL).sum(1) for part in vectors.split(_BLOCK)]
    counts = torch.cat([torch.zeros(0, dtype=torch.long), *parts])
    order = counts.argsort(descending=True)
    found = vectors[distinct(vectors, order[counts[order] >= times], _SAME)]
    return found[leverage_margin(mixture, found, mixture.zeros(found)) > 0]


def completed(mixture: Mixture, vectors: Tensor, found: Candidates) -> Tensor | None:
    """All columns: those known (m, n), and the choice of others that fits their inputs best; None if none does.

    A wrong column spoils the inputs of others: these activate neurons at which their column is zero, or leave others
    inactive at both ends at which it is not.
    """
    missing, order = mixture.rank - len(vectors), found.net_zeros.argsort(descending=True)
    order = order[found.net_zeros[order] >= mixture.rank]
    pool = found.vectors[distinct(found.vectors, order, _SAME, vectors)[: mixture.tuning.pool]]
    best, most = None, 0.0
    for chosen in islice(combinations(range(len(pool)), missing), mixture.tuning.choices):
        tried = torch.cat([vectors, pool[list(chosen)]])
        if float(torch.linalg.svdvals(tried)[-1]) < _SINGULAR:
            continue
        agreement = mixture.agreement(tried, mixture.inputs_of(tried))
        if bool(agreement.consistent(mixture.tuning).all()) and float(agreement.unmoved.mean()) > most:
            best, most = tried, float(agreement.unmoved.mean())
    return best
