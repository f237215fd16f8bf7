"""The test whether trained weights began at given weights: what training has left of them, layer by layer.

Training adds to the initial weights and decay shrinks them, so the trained weights still correlate with them. With
weights that were drawn independently they correlate by chance only: a correlation r over N weights has a probability
of at most exp(-N r^2 / 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

# Initial weights count as found if chance does as well with this probability, over all candidates together.
CHANCE = 1e-6
# Neurons of a layer that are paired, and numbers of each; a layer of fewer neurons has too few permutations.
_FEWEST_NEURONS, _MOST_NEURONS, _MOST_INPUTS = 8, 1024, 4096


@dataclass(frozen=True)
class StartTest:
    """Compares candidates for the initial weights with the trained ones; see `of`.

    Attributes:
        trained: of every layer a unit vector (N_i,): the trained weights without the directions in `fixed`.
        fixed: of every layer the orthonormal columns (N_i, 2) of what all candidates share: a constant and their mean.
        spread: of every layer, and of all together, the standard deviation of z over the references; at least 1.
    """

    trained: tuple[torch.Tensor, ...]
    fixed: tuple[torch.Tensor, ...]
    spread: torch.Tensor

    @classmethod
    def of(cls, trained: Sequence[torch.Tensor], references: Sequence[torch.Tensor]) -> StartTest:
        """The test for these trained weights.

        Args:
            trained: vectors (N_i,), one per layer.
            references: the same layers (R, N_i) under R other seeds. Their mean is what a layer has in common under
                all seeds, such as an identity plus noise; it is no evidence and is projected out. Layers whose numbers
                are not independent have a z with a larger spread, which divides it.
        """
        fixed = tuple(torch.linalg.qr(torch.stack([torch.ones_like(mean), mean], 1))[0]
                      for mean in (rows.mean(0) for rows in references))  # fmt: skip
        cleared = [each - basis @ (basis.T @ each) for each, basis in zip(trained, fixed, strict=True)]
        units = tuple(each / each.norm().clamp(min=torch.finfo(each.dtype).tiny) for each in cleared)
        test = cls(units, fixed, torch.ones(len(units) + 1))
        z = test.z(references)
        # The projections onto the references sum to zero, which takes one degree of freedom.
        spread = (z.square().sum(0) / max(1, len(z) - 1)).sqrt().clamp(min=1.0)
        return cls(units, fixed, spread)

    def correlations(self, candidates: Sequence[torch.Tensor]) -> torch.Tensor:
        """Correlation of every candidate with the trained weights in every layer, (B, L), from rows (B, N_i)."""
        columns = []
        for rows, unit, basis in zip(candidates, self.trained, self.fixed, strict=True):
            cleared = rows - (rows @ basis) @ basis.T
            columns.append((cleared @ unit) / cleared.norm(dim=1).clamp(min=torch.finfo(rows.dtype).tiny))
        return torch.stack(columns, 1)

    def z(self, candidates: Sequence[torch.Tensor]) -> torch.Tensor:
        """r sqrt(N) of every layer and, in the last column, of all layers together: (B, L + 1)."""
        counts = torch.tensor([float(len(each)) for each in self.trained])
        correlations = self.correlations(candidates)
        pooled = (correlations @ counts) / counts.sum().sqrt()
        return torch.cat([correlations * counts.sqrt(), pooled[:, None]], 1) / self.spread

    def log_chance(self, candidates: Sequence[torch.Tensor]) -> torch.Tensor:
        """Logarithm of the probability that a wrong candidate does as well: (B,).

        It is exp(-z^2 / 2) for the largest z, times the number of values that it is the largest of.
        """
        best = self.z(candidates).amax(1).clamp(min=0.0).double()
        return (math.log(len(self.spread)) - best.square() / 2).clamp(max=0.0)


def log_chance_of_pairing(trained: torch.Tensor, candidate: torch.Tensor) -> float:
    """Logarithm of the probability that two layers of independent trainings fit so well: 0 if it cannot be told.

    Independent trainings number their neurons independently, so at least one side of a layer, (outputs, inputs, ...),
    could be permuted. G_ij is the product of the i-th neuron of one and the j-th of the other, less the means of rows
    and columns: over all permutations its trace has mean 0 and variance sum G_ij^2 / (n - 1). The less certain of the
    two sides counts.
    """
    if trained.ndim < 2 or min(trained.shape[:2]) < _FEWEST_NEURONS:
        return 0.0
    turned = (trained.transpose(0, 1), candidate.transpose(0, 1))
    return max(_log_chance_of_rows(trained, candidate), _log_chance_of_rows(*turned))


def _log_chance_of_rows(trained: torch.Tensor, candidate: torch.Tensor) -> float:
    parts = [each[:_MOST_NEURONS].flatten(1)[:, :_MOST_INPUTS].detach().cpu().double() for each in (trained, candidate)]
    one, other = (each - each.mean(0) - each.mean(1, keepdim=True) + each.mean() for each in parts)
    products = one @ other.T  # (n, n)
    size = len(products)
    deviation = float(products.square().sum() / (size - 1)) ** 0.5
    z = max(0.0, float(products.trace()) / deviation) if deviation else 0.0
    return max(-z * z / 2, -math.lgamma(size + 1))  # one of n! permutations is the right one


def correlation(one: torch.Tensor, other: torch.Tensor) -> float:
    """Pearson's correlation of two vectors; 0 if one of them is constant."""
    pair = torch.stack([one, other]).detach().cpu().float()
    centred = pair - pair.mean(1, keepdim=True)
    return float(centred[0] @ centred[1] / centred.norm(dim=1).prod().clamp(min=torch.finfo(pair.dtype).tiny))
