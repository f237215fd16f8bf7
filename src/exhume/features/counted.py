"""Counting the cost of an attack: feature maps that keep a ledger of feature passes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch

from exhume.activations import Activation
from exhume.errors import InputError
from exhume.features.base import FeatureMap, Linearisation, RowFeatureMap, TrainedBody
from exhume.features.random import RandomFeatureMap, RandomLinearisation
from exhume.features.weighted import generates_anew, sweep, weighted_jvp, weighted_vjp
from exhume.sharding import coordinates_of


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

    def add(self, rows: float, num_features: int) -> None:
        """Counts an application to some rows over some of the features."""
        self.work += round(rows * num_features)


class CountedFeatures:
    """A feature map that counts; maps derived from it (another precision, a subset) write into the same ledger.

    Args:
        feature_map: what is counted.
        ledger: where.
        cost: of an application, in units of one of the map that the ledger was opened for.
    """

    def __init__(self, feature_map: FeatureMap, ledger: Ledger, cost: float = 1.0) -> None:
        self._map = feature_map
        self.ledger, self._cost, self.coordinates = ledger, cost, coordinates_of(feature_map)
        self.num_features, self.input_dim = feature_map.num_features, feature_map.input_dim
        self.dtype, self.device, self.symmetry = feature_map.dtype, feature_map.device, feature_map.symmetry

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
        return CountedLinearisation(self._map.linearise(inputs, inactive_slope, linear_rows), self)

    def refund(self, rows: int) -> None:
        """Takes an application off the count."""
        self._count(-rows)

    def instead(self, feature_map: FeatureMap, cost: float = 1.0) -> CountedFeatures:
        """Another map that writes into the same ledger, at `cost` times the cost."""
        return CountedFeatures(feature_map, self.ledger, self._cost * cost)

    @property
    def is_row_map(self) -> bool:
        """Whether the map underneath is of the form act(V x)."""
        return isinstance(self._map, RowFeatureMap)

    @property
    def activation(self) -> Activation:
        """act, if the map is of the form act(V x)."""
        return self._rows.activation

    @property
    def has_offset(self) -> bool:
        """Whether it is act(V x + b)."""
        return self._rows.has_offset

    def drift(self, inputs: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor | None:
        """How a step of the body moves the features, counted as two passes; None if the body has no weights."""
        if not isinstance(self._map, TrainedBody):
            return None
        self._count(2 * inputs.shape[0])
        return self._map.drift(inputs, cotangents)

    def preactivate(self, inputs: torch.Tensor) -> torch.Tensor:
        """V x, counted."""
        self._count(inputs.shape[0])
        return self._rows.preactivate(inputs)

    def pull_back(self, cotangents: torch.Tensor) -> torch.Tensor:
        """V^T c, counted."""
        self._count(cotangents.shape[0])
        return self._rows.pull_back(cotangents)

    def weighted_moment(self, basis: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """V^T diag(weights) V b, counted as two passes."""
        self._count(2 * basis.shape[0])
        return self._rows.weighted_moment(basis, weights)

    def pull_back_and_moment(
        self, cotangents: torch.Tensor, basis: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """V^T c and V^T diag(weights) V b, counted as three applications."""
        self._count(cotangents.shape[0] + 2 * basis.shape[0])
        return self._rows.pull_back_and_moment(cotangents, basis, weights)

    def second_moment(self, weights: torch.Tensor | None = None) -> torch.Tensor:
        """V^T diag(weights) V, counted as d rows."""
        self._count(self.input_dim)
        return self._rows.second_moment(weights)

    def with_dtype(self, dtype: torch.dtype) -> CountedFeatures:
        """The same map in another precision."""
        return self.instead(self._map.with_dtype(dtype))

    def with_activation(self, activation: str | Activation) -> CountedFeatures:
        """The same V under another activation."""
        return self.instead(self._rows.with_activation(activation))

    @property
    def is_kept(self) -> bool:
        """Whether no pass draws V anew; a map without such a matrix does not."""
        return not isinstance(self._map, RandomFeatureMap) or self._map.matrix.is_kept

    def kept_as_it_fits(self, dtype: torch.dtype = torch.float32) -> CountedFeatures:
        """The map with what fits the budget of V kept, in this precision, if it has a V that does not fit."""
        return self if self.is_kept else self.instead(cast(RandomFeatureMap, self._map).kept_as_it_fits(dtype))

    def subset(self, rows: slice | torch.Tensor) -> CountedFeatures:
        """Some of the features; a pass over them counts as that part of one."""
        return self.instead(self._map.subset(rows))

    def identity(self) -> str:
        """That of the map underneath."""
        return self._map.identity()

    def to_json(self) -> dict[str, Any]:
        """The description of the map underneath."""
        return self._map.to_json()

    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors of the map underneath."""
        return self._map.tensors()

    @cached_property  # asking a protocol whether it is kept takes longer than a small pass
    def _rows(self) -> RowFeatureMap:
        if not isinstance(self._map, RowFeatureMap):
            raise InputError(f"{type(self._map).__name__} is not of the form act(V x)")
        return self._map

    def _count(self, rows: int) -> None:
        self.ledger.add(rows * self._cost, self.num_features)


class CountedLinearisation:
    """A linearisation whose applications are counted."""

    def __init__(self, inner: Linearisation, owner: CountedFeatures) -> None:
        self._inner, self._owner = inner, owner

    @property
    def features(self) -> torch.Tensor:
        return self._inner.features

    @property
    def slopes(self) -> torch.Tensor:
        """act'(V x), (m, p), of maps of the form act(V x)."""
        return cast(RandomLinearisation, self._inner).slopes

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        self._owner._count(directions.shape[0])
        return self._inner.jvp(directions)

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        self._owner._count(cotangents.shape[0])
        return self._inner.vjp(cotangents)

    def weighted_jvp(self, weights: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        self._owner._count(directions.shape[0])
        return weighted_jvp(self._inner, weights, directions)

    def weighted_vjp(self, weights: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
        self._owner._count(weights.shape[0])
        return weighted_vjp(self._inner, weights, cotangents)

    @property
    def generates_anew(self) -> bool:
        return generates_anew(self._inner)

    def sweep(
        self, weights: torch.Tensor, directions: torch.Tensor, change: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self._owner._count(2 * directions.shape[0])
        return sweep(self._inner, weights, directions, change)

    def mean_kernel(self, count: int) -> torch.Tensor:
        self._owner._count(self.kernel_passes * self.features.shape[0])
        return self._inner.mean_kernel(count)

    @property
    def kernel_passes(self) -> int:
        return self._inner.kernel_passes
