"""Feature maps inside a subspace: phi(scale z B) for the rows z (m, r) of a matrix, B an orthonormal basis (r, d)."""

from __future__ import annotations

import copy
import hashlib
import math
from typing import Any, Self

import torch

from exhume.errors import InputError
from exhume.features.base import FeatureMap, Linearisation, TrainedBody
from exhume.features.first_layer import FirstLayerMap
from exhume.features.gaussian import DenseMatrix
from exhume.features.random import RandomFeatureMap


def reduced(feature_map: FeatureMap, basis: torch.Tensor) -> FeatureMap:
    """The map inside the subspace, in coordinates in which a sample of norm sqrt(d) has norm sqrt(r).

    For act(V x) that is act(V' z) with V' = sqrt(d/r) V B^T (p, r), formed in one pass: again of its form, with
    rows of the usual size.
    """
    scale = math.sqrt(basis.shape[1] / basis.shape[0])
    if not isinstance(feature_map, RandomFeatureMap):
        return ReducedMap(feature_map, basis, scale)
    entries = torch.empty((feature_map.matrix.shape[0], basis.shape[0]), dtype=feature_map.dtype)
    entries = entries.to(feature_map.device)
    columns = scale * basis.to(entries).T
    for rows, part in feature_map.matrix.chunks(feature_map.dtype):
        entries[rows] = part @ columns
    matrix, activation, dtype = DenseMatrix(entries), feature_map.activation, feature_map.dtype
    here = feature_map.coordinates
    if not isinstance(feature_map, FirstLayerMap):
        return RandomFeatureMap(matrix, activation, dtype, coordinates=here)
    return FirstLayerMap(matrix, activation, dtype, offset=feature_map.offset, input_scale=scale, coordinates=here)


class ReducedMap:
    """phi(scale z B) for any map phi."""

    def __init__(self, feature_map: FeatureMap, basis: torch.Tensor, scale: float) -> None:
        self._map, self._scale = feature_map, scale
        self._basis = basis.to(feature_map.device, feature_map.dtype)
        self.num_features, self.input_dim = feature_map.num_features, int(basis.shape[0])
        self.dtype, self.device, self.symmetry = feature_map.dtype, feature_map.device, feature_map.symmetry

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Phi (m, p)."""
        return self._map.forward(self.lift(inputs))

    def linearise(self, inputs: torch.Tensor, inactive_slope: float = 0.0, linear_rows: int = 0) -> Linearisation:
        """Phi and its derivative in the coordinates."""
        return _ReducedLinearisation(self._map.linearise(self.lift(inputs), inactive_slope, linear_rows), self)

    def drift(self, inputs: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor | None:
        """That of the map itself."""
        return self._map.drift(self.lift(inputs), cotangents) if isinstance(self._map, TrainedBody) else None

    def subset(self, rows: slice | torch.Tensor) -> Self:
        """Some of the features."""
        return self._around(self._map.subset(rows))

    def with_dtype(self, dtype: torch.dtype) -> Self:
        """The same in another precision."""
        return self._around(self._map.with_dtype(dtype))

    def identity(self) -> str:
        """That of the map, and a hash of the basis."""
        digest = hashlib.sha256(self._basis.cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
        return f"{self._map.identity()} in {digest}"

    def to_json(self) -> dict[str, Any]:
        """Nothing: a reduced map lives as long as an attack."""
        raise InputError("a feature map inside a subspace is made anew from the map itself, and not saved")

    def tensors(self) -> dict[str, torch.Tensor]:
        """None, likewise."""
        return {}

    def lift(self, rows: torch.Tensor) -> torch.Tensor:
        """scale z B, (m, d)."""
        if rows.ndim != 2 or rows.shape[1] != self.input_dim:
            raise InputError(f"inputs of shape {tuple(rows.shape)} do not fit a map of (m, {self.input_dim}) rows")
        return self._scale * rows.to(self._basis) @ self._basis

    def lower(self, rows: torch.Tensor) -> torch.Tensor:
        """The adjoint of `lift`, (m, r)."""
        return self._scale * rows @ self._basis.T

    def _around(self, feature_map: FeatureMap) -> Self:
        other = copy.copy(self)
        other._map, other._basis = feature_map, self._basis.to(feature_map.dtype)
        other.num_features, other.dtype = feature_map.num_features, feature_map.dtype
        return other


class _ReducedLinearisation:
    def __init__(self, inner: Linearisation, owner: ReducedMap) -> None:
        self._inner, self._owner = inner, owner

    @property
    def features(self) -> torch.Tensor:
        return self._inner.features

    @property
    def kernel_passes(self) -> int:
        return self._inner.kernel_passes

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        return self._inner.jvp(self._owner.lift(directions))

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        return self._owner.lower(self._inner.vjp(cotangents))

    def mean_kernel(self, count: int) -> torch.Tensor:
        # tr(B J_i^T J_j B^T) scale^2 / r is tr(J_i^T J_j) / r on average over subspaces, scale^2 = d / r.
        return self._inner.mean_kernel(count) * self._owner._scale**2
