"""Nuisance parts of the span equation: a linear and a constant part and known samples, fitted and projected out.

With relu(z) = z/2 + |z|/2 the linear part of the weights is m = sum_i a_i x_i / 2, whatever the signs of the samples.
Fitting it freely removes the spurious minima that wrong signs cause; afterwards it determines the signs. Known samples
enter the equation with given features and free coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch

from exhume.features import FeatureMap, OneLayerFeatures

# A ridge beyond this many times the mean diagonal helps no Gram matrix.
_MOST_RIDGE = 1e4


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
    """The rows N (q, p) that are projected out: the d columns of V, a row of ones, given rows, or some of these.

    Args:
        features: phi; of the form act(V x) if its linear part is free.
        linear, constant: as in `Nuisance`.
        fixed: (m, p) features of known samples, or None.
    """

    def __init__(self, features: FeatureMap, linear: bool, constant: bool, fixed: torch.Tensor | None = None) -> None:
        # Cast, not asserted: a search builds a basis at every step, and an isinstance check of a protocol is slow.
        self._rows = cast(OneLayerFeatures, features) if linear else None
        self._coordinates = features.coordinates
        shape = (int(constant), self._coordinates.width(features.num_features))
        ones = torch.ones(shape, dtype=features.dtype, device=features.device)
        self._given = ones if fixed is None else torch.cat([ones, fixed.to(ones)])  # (c + m, p)
        corner = self._coordinates.sum((self._given @ self._given.T).double())
        if self._rows is not None:
            moment = self._rows.second_moment().double()  # (d, d)
            # A small ridge: with fewer features than inputs V^T V has no inverse.
            moment.diagonal().add_(1e-12 * moment.diagonal().mean())
            cross = self._rows.rmatvec(self._given).double() if len(self._given) else moment[:0]
            corner = torch.cat([torch.cat([moment, cross.T], 1), torch.cat([cross, corner], 1)])
        self._factor = cholesky(corner, 1e-12 if fixed is not None else 0.0)  # of N N^T

    def moments(self, rows: torch.Tensor) -> torch.Tensor:
        """rows N^T: (m, p) -> (m, q)."""
        parts = [self._rows.rmatvec(rows)] if self._rows is not None else []
        return torch.cat([*parts, self._coordinates.sum(rows @ self._given.T)], 1)

    def combine(self, weights: torch.Tensor) -> torch.Tensor:
        """weights N: (m, q) -> (m, p)."""
        given = len(self._given)
        total = weights[:, weights.shape[1] - given :] @ self._given
        if self._rows is None:
            return total
        return total + self._rows.matvec(weights[:, : self._rows.input_dim])

    def solve(self, moments: torch.Tensor) -> torch.Tensor:
        """moments (N N^T)^-1: (m, q) -> (m, q)."""
        return torch.cholesky_solve(moments.double().T, self._factor).T.to(moments.dtype)


def cholesky(gram: torch.Tensor, ridge: float) -> torch.Tensor:
    """Cholesky factor of the Gram matrix; where rows coincide, the ridge grows until there is one."""
    scale = float(gram.diagonal().abs().mean()) or 1.0  # rounding may leave a projected diagonal below zero
    while True:
        shifted = 0.5 * (gram + gram.T)
        shifted.diagonal().add_(ridge * scale)
        factor, info = torch.linalg.cholesky_ex(shifted)
        if int(info) == 0 or ridge > _MOST_RIDGE or not bool(torch.isfinite(gram).all()):
            return factor
        ridge = max(100 * ridge, 1e-14)
