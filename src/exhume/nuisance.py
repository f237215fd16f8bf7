"""Nuisance parts of the span equation: a linear and a constant part, fitted freely and projected out.

With relu(z) = z/2 + |z|/2 the linear part of the weights is m = sum_i a_i x_i / 2, whatever the signs of the samples.
Fitting it freely removes the bad minima that wrong signs make; afterwards it tells the signs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from exhume.features import RowFeatureMap


@dataclass(frozen=True)
class Nuisance:
    """Which parts are free.

    Attributes:
        linear: Theta may contain W V^T with any W (k, d).
        constant: Theta may contain a constant per output.
        joint: W is an unknown of the Gauss-Newton step rather than projected out, which needs no d x d matrix.
    """

    linear: bool = False
    constant: bool = False
    joint: bool = False


class NuisanceBasis:
    """The rows N (q, p) that are projected out: the d columns of V, a row of ones, or both."""

    def __init__(self, features: RowFeatureMap, linear: bool, constant: bool) -> None:
        self._features, self._linear, self._constant = features, linear, constant
        parts = []
        if linear:
            moment = features.second_moment().double()  # (d, d)
            # A breath of ridge: with fewer features than inputs V^T V has no inverse.
            moment.diagonal().add_(1e-12 * moment.diagonal().mean())
            parts.append(moment)
        if constant:
            ones = torch.ones((1, features.num_features), dtype=features.dtype, device=features.device)
            corner = torch.full((1, 1), float(features.num_features), dtype=torch.float64, device=features.device)
            if not linear:
                parts.append(corner)
            else:
                sums = features.pull_back(ones).double()  # (1, d)
                parts = [torch.cat([torch.cat([parts[0], sums.T], 1), torch.cat([sums, corner], 1)])]
        self._factor = torch.linalg.cholesky(parts[0])  # of N N^T

    def moments(self, rows: torch.Tensor) -> torch.Tensor:
        """rows N^T: (m, p) -> (m, q)."""
        parts = [self._features.pull_back(rows)] if self._linear else []
        if self._constant:
            parts.append(rows.sum(1, keepdim=True))
        return torch.cat(parts, 1)

    def combine(self, weights: torch.Tensor) -> torch.Tensor:
        """weights N: (m, q) -> (m, p)."""
        if not self._linear:
            return weights.expand(weights.shape[0], self._features.num_features)
        linear = self._features.preactivate(weights[:, : self._features.input_dim])
        return linear + weights[:, -1:] if self._constant else linear

    def solve(self, moments: torch.Tensor) -> torch.Tensor:
        """moments (N N^T)^-1: (m, q) -> (m, q)."""
        return torch.cholesky_solve(moments.double().T, self._factor).T.to(moments.dtype)
