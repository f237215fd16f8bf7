"""Features at both ends of training: the mean of those of the initial and of the trained body.

The head was moved by the features as they were at the time. If they moved in step with the head, from phi_0 to phi_T,
their average is (phi_0 + phi_T) / 2 up to second order, whatever the coefficients.
"""

from __future__ import annotations

from typing import Any

import torch

from exhume.errors import InputError
from exhume.features.base import FeatureMap, Linearisation


class BothEnds:
    """(phi_0(x) + phi_T(x)) / 2.

    Args:
        initial, trained: two maps of the same sizes.
    """

    def __init__(self, initial: FeatureMap, trained: FeatureMap) -> None:
        sizes = (initial.num_features, initial.input_dim), (trained.num_features, trained.input_dim)
        if sizes[0] != sizes[1]:
            raise InputError(f"initial and trained features have different sizes, {sizes[0]} and {sizes[1]}")
        self._ends = (initial, trained)
        self.num_features, self.input_dim = sizes[0]
        self.dtype, self.device, self.symmetry = trained.dtype, trained.device, trained.symmetry

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The mean of both."""
        initial, trained = (end.forward(inputs) for end in self._ends)
        return (initial + trained).mul_(0.5)

    def linearise(self, inputs: torch.Tensor, inactive_slope: float = 0.0, linear_rows: int = 0) -> Linearisation:
        """Both linearised."""
        return _BothLinearised(*(end.linearise(inputs, inactive_slope, linear_rows) for end in self._ends))

    def subset(self, rows: slice | torch.Tensor) -> BothEnds:
        """Some of the features."""
        return BothEnds(*(end.subset(rows) for end in self._ends))

    def with_dtype(self, dtype: torch.dtype) -> BothEnds:
        """Both in another precision."""
        return BothEnds(*(end.with_dtype(dtype) for end in self._ends))

    def identity(self) -> str:
        """Those of both."""
        return " and ".join(end.identity() for end in self._ends)

    def to_json(self) -> dict[str, Any]:
        """Nothing: it lives as long as an attack."""
        raise InputError("features at both ends are made anew from a model and its initial weights, and not saved")

    def tensors(self) -> dict[str, torch.Tensor]:
        """None, likewise."""
        return {}


class _BothLinearised:
    def __init__(self, initial: Linearisation, trained: Linearisation) -> None:
        self._ends = (initial, trained)
        self.features = 0.5 * (initial.features + trained.features)
        self.kernel_passes = initial.kernel_passes + trained.kernel_passes

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        initial, trained = (end.jvp(directions) for end in self._ends)
        return (initial + trained).mul_(0.5)

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        initial, trained = (end.vjp(cotangents) for end in self._ends)
        return (initial + trained).mul_(0.5)

    def mean_kernel(self, count: int) -> torch.Tensor:
        initial, trained = (end.mean_kernel(count) for end in self._ends)
        return (initial + trained).mul_(0.5)
