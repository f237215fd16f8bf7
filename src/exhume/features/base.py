"""The FeatureMap protocol: what an attack may ask of a model's body, and a counter of what that costs."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from exhume.activations import Activation


class Linearisation(Protocol):
    """A feature map and its derivative at given inputs X (m, d); sample i has the Jacobian J_i (p, d)."""

    @property
    def features(self) -> torch.Tensor:
        """Phi(X), (m, p)."""

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        """Row i is J_i directions_i: (m, d) -> (m, p). One feature pass."""

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        """Row i is J_i^T cotangents_i: (m, p) -> (m, d). One feature pass."""


class FeatureMap(Protocol):
    """phi: R^d -> R^p, applied to the rows of a matrix."""

    @property
    def num_features(self) -> int:
        """p."""

    @property
    def input_dim(self) -> int:
        """d."""

    @property
    def dtype(self) -> torch.dtype:
        """The precision it computes in."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    @property
    def activation(self) -> Activation:
        """The nonlinearity that decides about signs and norms."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Phi(X): (m, d) -> (m, p). One feature pass."""

    def linearise(self, inputs: torch.Tensor, inactive_slope: float = 0.0) -> Linearisation:
        """Phi and its derivative at X. One feature pass; each jvp and vjp of the result is one more.

        A positive `inactive_slope` is given to inactive ReLUs in the derivative (the law's authors use 0.02).
        """

    def with_dtype(self, dtype: torch.dtype) -> FeatureMap:
        """The same map in another precision, sharing its weights."""

    def to_json(self) -> dict[str, Any]:
        """What is needed to build it again."""


class CountedFeatures:
    """A feature map that counts feature passes: rows handled, over `unit_rows` (the number of samples sought)."""

    def __init__(self, feature_map: FeatureMap, unit_rows: int, passes: float = 0.0) -> None:
        self._map = feature_map
        self._unit_rows = unit_rows
        self.passes = passes
        self.num_features, self.input_dim = feature_map.num_features, feature_map.input_dim
        self.dtype, self.device, self.activation = feature_map.dtype, feature_map.device, feature_map.activation

    def count(self, rows: int) -> None:
        """Adds one application to `rows` rows."""
        self.passes += rows / self._unit_rows

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Phi(X), counted."""
        self.count(inputs.shape[0])
        return self._map.forward(inputs)

    def linearise(self, inputs: torch.Tensor, inactive_slope: float = 0.0) -> Linearisation:
        """Phi(X) and its counted derivative."""
        self.count(inputs.shape[0])
        return _CountedLinearisation(self._map.linearise(inputs, inactive_slope), self)

    def with_dtype(self, dtype: torch.dtype) -> FeatureMap:
        """The same map in another precision; its passes are counted here too."""
        return _Recast(self._map.with_dtype(dtype), self)

    def to_json(self) -> dict[str, Any]:
        """The description of the map underneath."""
        return self._map.to_json()


class _Recast(CountedFeatures):
    def __init__(self, feature_map: FeatureMap, ledger: CountedFeatures) -> None:
        super().__init__(feature_map, ledger._unit_rows)
        self._ledger = ledger

    def count(self, rows: int) -> None:
        self._ledger.count(rows)


class _CountedLinearisation:
    def __init__(self, inner: Linearisation, ledger: CountedFeatures) -> None:
        self._inner, self._ledger = inner, ledger

    @property
    def features(self) -> torch.Tensor:
        return self._inner.features

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        self._ledger.count(directions.shape[0])
        return self._inner.jvp(directions)

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        self._ledger.count(cotangents.shape[0])
        return self._inner.vjp(cotangents)
