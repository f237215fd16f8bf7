"""Columns of a ReLU layer from estimates of their samples, where random inputs lead to no more of them.

With few neurons for each sample, zeros alone do not lead from a random input to a column. What a sample can have sent
back to the layer does: the search without zeros, with smooth functions in the place of ReLUs, is off by 0.2 to 0.5 for
most samples, and their zeros are then near enough to be found exactly.
"""

from __future__ import annotations

from itertools import combinations, islice

import torch

from exhume.attacks._base.problem import Problem
from exhume.attacks._search.unmixing.columns import Candidates, columns_of_inputs, left_open
from exhume.attacks._search.unmixing.mixture import Mixture, Tensor
from exhume.attacks._search.unmixing.sample_spaces import ReadNetwork
from exhume.attacks._search.unmixing.smooth_columns import SmoothSearch, SmoothState
from exhume.target.dense_displacement import DenseDisplacement

# Vectors with a smaller singular value are dependent; above the first cosine they are one, above the second one was
# found twice.
_SINGULAR, _SAME, _EQUAL = 1e-6, 0.99, 0.9999


class Estimation:
    """Estimates of the samples whose columns are not known, and the columns next to them.

    Args:
        problem: that the mixture belongs to.
        mixture: the displacement of the first layer.
        moved: the same.
    """

    def __init__(self, problem: Problem, mixture: Mixture, moved: DenseDisplacement) -> None:
        self._problem, self._mixture, self._moved = problem, mixture, moved

    @property
    def possible(self) -> bool:
        """Whether the weights of all layers before training are known, and the samples are few enough."""
        model = self._problem.target.known_model
        known = model is not None and set(model.trained) <= set(model.initial)
        return known and 1 < self._mixture.rank <= self._mixture.tuning.most_drawn

    def search(self, vectors: Tensor, sharpness: float) -> SmoothSearch:
        """The search for estimates besides the samples of known columns (m, n)."""
        model = self._problem.target.known_model
        assert model is not None
        network = ReadNetwork(model, self._moved, self._problem.target.input_shape, sharpness)
        return SmoothSearch(self._problem, network, self._moved.spectrum.left @ vectors.T)

    def columns(
        self, vectors: Tensor, search: SmoothSearch, state: SmoothState, generator: torch.Generator
    ) -> Candidates:
        """Columns from many weightings of each estimate."""
        mixture, frame, spectrum = self._mixture, search.frame, self._moved.spectrum
        estimates = state.best_inputs if len(state.best_inputs) else state.inputs
        columns = frame.columns(estimates) if len(estimates) == search.count else state.columns
        inputs = estimates @ (frame.right @ spectrum.right.T)  # (r, n)
        own = _without(mixture, vectors, columns @ spectrum.left, inputs)
        times = -(-mixture.tuning.weightings // len(inputs))
        return columns_of_inputs(mixture, inputs.repeat(times, 1), own.repeat(times, 1), generator)


def _without(mixture: Mixture, vectors: Tensor, estimates: Tensor, inputs: Tensor) -> Tensor:
    """Estimated columns (r, n), known up to the columns (m, n): with the multiples that fit inactive neurons best."""
    if len(vectors):
        idle = (torch.maximum(*mixture.activations(inputs)) < 0).to(vectors)  # (r, h)
        known, own = mixture.columns(vectors), mixture.columns(estimates)
        normal = (idle[:, None, :] * known) @ known.T  # (r, m, m)
        normal = normal + 1e-3 * normal.diagonal(dim1=1, dim2=2).mean(1)[:, None, None] * torch.eye(len(known)).to(own)
        multiples = torch.linalg.lstsq(normal, ((idle * own) @ known.T)[:, :, None]).solution[:, :, 0]
        estimates = estimates - multiples @ vectors
    return torch.nn.functional.normalize(estimates, dim=1)


def likely(mixture: Mixture, found: Candidates) -> Tensor:
    """Indices of columns that are probably right, most zeros first, though their zeros hardly determine them.

    Random weightings lead to a right column again and again, but to a wrong one once or twice.
    """
    tuning = mixture.tuning
    votes = ((found.vectors @ found.vectors.T).abs() > _EQUAL).sum(1)
    chosen = ((votes >= tuning.votes) & (found.net_zeros >= mixture.rank)).nonzero()[:, 0]
    chosen = chosen[left_open(mixture, found.vectors[chosen], found.zeros[chosen]) > tuning.least_leverage]
    return chosen[found.net_zeros[chosen].argsort(descending=True)]


def completed(mixture: Mixture, vectors: Tensor, found: Candidates) -> Tensor | None:
    """All columns: those known (m, n), and the choice of others that fits their inputs best; None if none does.

    A wrong column spoils the inputs of others: these activate neurons at which their column is zero, or leave others
    inactive at both ends at which it is not.
    """
    missing, pool = mixture.rank - len(vectors), vectors[:0]
    for at in found.net_zeros.argsort(descending=True).tolist():
        if found.net_zeros[at] < mixture.rank or len(pool) >= mixture.tuning.pool:
            break
        vector = found.vectors[at][None]
        if not bool(((torch.cat([vectors, pool]) @ vector.T).abs() > _SAME).any()):
            pool = torch.cat([pool, vector])
    best, most = None, 0.0
    for chosen in islice(combinations(range(len(pool)), missing), mixture.tuning.choices):
        tried = torch.cat([vectors, pool[list(chosen)]])
        if float(torch.linalg.svdvals(tried)[-1]) < _SINGULAR:
            continue
        agreement = mixture.agreement(tried, mixture.inputs_of(tried))
        if bool(agreement.consistent(mixture.tuning).all()) and float(agreement.unmoved.mean()) > most:
            best, most = tried, float(agreement.unmoved.mean())
    return best
