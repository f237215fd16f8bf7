"""Feature maps inside a subspace: phi(scale z B) for the rows z (m, r) of a matrix, B an orthonormal basis (r, d)."""

from __future__ import annotations

import copy
import hashlib
import math
from typing import Self

import torch

from exhume.features.one_layer import OneLayerMap
from exhume.features.pass_counter import PassCounter
from exhume.features.protocol import FeatureMap, Linearisation, TrainedBody


def reduced(feature_map: FeatureMap, basis: torch.Tensor) -> FeatureMap:
    """The map inside the subspace, in coordinates in which a sample of norm sqrt(d) has norm sqrt(r).

    For act(V x) that is act(V' z) with V' = sqrt(d/r) V B^T (p, r), formed in one pass over r rows: again of its form,
    with rows of the usual size.
    """
    scale = math.sqrt(basis.shape[1] / basis.shape[0])
    if isinstance(feature_map, OneLayerMap):
        return feature_map.in_basis(basis, scale)
    return (ReducedBody if isinstance(feature_map, TrainedBody) else ReducedMap)(feature_map, basis, scale)


class ReducedMap(FeatureMap):
    """phi(scale z B) for any map phi, which counts its own work: inputs are lifted to all d dimensions."""

    def __init__(self, feature_map: FeatureMap, basis: torch.Tensor, scale: float) -> None:
        self._map, self._scale = feature_map, scale
        self._basis = basis.to(feature_map.device, feature_map.dtype)
        self.num_features, self.input_dim = feature_map.num_features, int(basis.shape[0])
        self.dtype, self.device, self.symmetry = feature_map.dtype, feature_map.device, feature_map.symmetry
        self.counter = feature_map.counter

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Phi (m, p)."""
        return self._map.forward(self.lift(inputs))

    def linearise(self, inputs: torch.Tensor, inactive_slope: float = 0.0, linear_rows: int = 0) -> Linearisation:
        """Phi and its derivative in the coordinates."""
        return _ReducedLinearisation(self._map.linearise(self.lift(inputs), inactive_slope, linear_rows), self)

    def subset(self, coordinates: slice | torch.Tensor) -> Self:
        """Some of the features."""
        return self._around(self._map.subset(coordinates))

    def with_dtype(self, dtype: torch.dtype) -> Self:
        """The same in another precision."""
        return self._around(self._map.with_dtype(dtype))

    def with_counter(self, counter: PassCounter) -> Self:
        """The same, counting elsewhere."""
        return self._around(self._map.with_counter(counter))

    def identity(self) -> str:
        """That of the map, and a hash of the basis."""
        digest = hashlib.sha256(self._basis.cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
        return f"{self._map.identity()} in {digest}"

    def lift(self, rows: torch.Tensor) -> torch.Tensor:
        """scale z B, (m, d)."""
        return self._scale * self.checked(rows) @ self._basis

    def lower(self, rows: torch.Tensor) -> torch.Tensor:
        """The adjoint of `lift`, (m, r)."""
        return self._scale * rows @ self._basis.T

    def _around(self, feature_map: FeatureMap) -> Self:
        other = copy.copy(self)
        other._map, other._basis = feature_map, self._basis.to(feature_map.dtype)
        other.num_features, other.dtype = feature_map.num_features, feature_map.dtype
        other.counter = feature_map.counter
        return other


class ReducedBody(ReducedMap):
    """The same for a map whose weights were trained."""

    def drift(self, inputs: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
        """That of the map itself."""
        assert isinstance(self._map, TrainedBody)
        return self._map.drift(self.lift(inputs), cotangents)


class _ReducedLinearisation(Linearisation):
    def __init__(self, inner: Linearisation, owner: ReducedMap) -> None:
        self._inner, self._owner, self.features = inner, owner, inner.features

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        return self._inner.jvp(self._owner.lift(directions))

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        return self._owner.lower(self._inner.vjp(cotangents))

    def mean_kernel(self, count: int) -> torch.Tensor:
        # tr(B J_i^T J_j B^T) scale^2 / r is tr(J_i^T J_j) / r on average over subspaces, scale^2 = d / r.
        return self._inner.mean_kernel(count) * self._owner._scale**2
