"""Counting the cost of an attack: feature maps that keep a ledger of feature passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from exhume.activations import Activation
from exhume.errors import InputError
from exhume.features.base import FeatureMap, Linearisation, RowFeatureMap


@dataclass
class Ledger:
    """Feature passes so far. One pass: `unit_rows` rows through all `num_features` features, once."""

    unit_rows: int
    num_features: int
    work: int = 0  # rows times features

    @property
    def passes(self) -> float:
        """The work in passes."""
        return self.work / (self.unit_rows * self.num_features)

    def add(self, rows: int, num_features: int) -> None:
        """Counts an application to some rows over some of the features."""
        self.work += rows * num_features


class CountedFeatures:
    """A feature map that counts; maps derived from it (another precision, a subset) write into the same ledger."""

    def __init__(self, feature_map: FeatureMap, ledger: Ledger) -> None:
        self._map = feature_map
        self.ledger = ledger
        self.num_features, self.input_dim = feature_map.num_features, feature_map.input_dim
        self.dtype, self.device, self.activation = feature_map.dtype, feature_map.device, feature_map.activation

    @classmethod
    def open(cls, feature_map: FeatureMap, unit_rows: int) -> CountedFeatures:
        """Starts a ledger in which `unit_rows` rows make a pass."""
        return cls(feature_map, Ledger(unit_rows, feature_map.num_features))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Phi(X), counted."""
        self._count(inputs.shape[0])
        return self._map.forward(inputs)

    def linearise(self, inputs: torch.Tensor, inactive_slope: float = 0.0, linear_rows: int = 0) -> Linearisation:
        """Phi(X) and its counted derivative."""
        self._count(inputs.shape[0])
        return _CountedLinearisation(self._map.linearise(inputs, inactive_slope, linear_rows), self)

    def preactivate(self, inputs: torch.Tensor) -> torch.Tensor:
        """V x, counted."""
        self._count(inputs.shape[0])
        return self._rows.preactivate(inputs)

    def pull_back(self, cotangents: torch.Tensor) -> torch.Tensor:
        """V^T c, counted."""
        self._count(cotangents.shape[0])
        return self._rows.pull_back(cotangents)

    def second_moment(self, weights: torch.Tensor | None = None) -> torch.Tensor:
        """V^T diag(weights) V, counted as d rows."""
        self._count(self.input_dim)
        return self._rows.second_moment(weights)

    def with_dtype(self, dtype: torch.dtype) -> CountedFeatures:
        """The same map in another precision."""
        return CountedFeatures(self._map.with_dtype(dtype), self.ledger)

    def with_activation(self, activation: str | Activation) -> CountedFeatures:
        """The same V under another activation."""
        return CountedFeatures(self._rows.with_activation(activation), self.ledger)

    def subset(self, rows: slice | torch.Tensor) -> CountedFeatures:
        """Some of the features; a pass over them counts as that part of one."""
        return CountedFeatures(self._rows.subset(rows), self.ledger)

    def to_json(self) -> dict[str, Any]:
        """The description of the map underneath."""
        return self._map.to_json()

    @property
    def _rows(self) -> RowFeatureMap:
        if not isinstance(self._map, RowFeatureMap):
            raise InputError(f"{type(self._map).__name__} is not of the form act(V x)")
        return self._map

    def _count(self, rows: int) -> None:
        self.ledger.add(rows, self.num_features)


class _CountedLinearisation:
    def __init__(self, inner: Linearisation, owner: CountedFeatures) -> None:
        self._inner, self._owner = inner, owner

    @property
    def features(self) -> torch.Tensor:
        return self._inner.features

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        self._owner._count(directions.shape[0])
        return self._inner.jvp(directions)

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        self._owner._count(cotangents.shape[0])
        return self._inner.vjp(cotangents)
