"""Features at both ends of training: the mean of those of the initial and of the trained body.

The head was moved by the features as they were at the time. If they moved in step with the head, from phi_0 to phi_T,
their average is (phi_0 + phi_T) / 2 up to second order, whatever the coefficients.
"""

from __future__ import annotations

from typing import Self

import torch

from exhume.errors import InputError
from exhume.features.pass_counter import PassCounter
from exhume.features.protocol import FeatureMap, Linearisation


class BothEnds(FeatureMap):
    """(phi_0(x) + phi_T(x)) / 2.

    Args:
        initial, trained: two maps of the same sizes; work is counted where that of the second is.
    """

    def __init__(self, initial: FeatureMap, trained: FeatureMap) -> None:
        sizes = (initial.num_features, initial.input_dim), (trained.num_features, trained.input_dim)
        if sizes[0] != sizes[1]:
            raise InputError(f"initial and trained features have different sizes, {sizes[0]} and {sizes[1]}")
        self.counter = trained.counter
        self._ends = (initial.with_counter(self.counter), trained)
        self.num_features, self.input_dim = sizes[0]
        self.dtype, self.device, self.symmetry = trained.dtype, trained.device, trained.symmetry

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The mean of both."""
        initial, trained = (end.forward(inputs) for end in self._ends)
        return (initial + trained).mul_(0.5)

    def linearise(self, inputs: torch.Tensor, inactive_slope: float = 0.0, linear_rows: int = 0) -> Linearisation:
        """Both linearised."""
        return _BothLinearised(*(end.linearise(inputs, inactive_slope, linear_rows) for end in self._ends))

    def subset(self, coordinates: slice | torch.Tensor) -> Self:
        """Some of the features."""
        return type(self)(*(end.subset(coordinates) for end in self._ends))

    def with_dtype(self, dtype: torch.dtype) -> Self:
        """Both in another precision."""
        return type(self)(*(end.with_dtype(dtype) for end in self._ends))

    def with_counter(self, counter: PassCounter) -> Self:
        """Both counting elsewhere."""
        return type(self)(*(end.with_counter(counter) for end in self._ends))

    def identity(self) -> str:
        """Those of both."""
        return " and ".join(end.identity() for end in self._ends)


class _BothLinearised(Linearisation):
    def __init__(self, *ends: Linearisation) -> None:
        self._ends = ends
        self.features = 0.5 * (ends[0].features + ends[1].features)

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        return self._mean(*(end.jvp(directions) for end in self._ends))

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        return self._mean(*(end.vjp(cotangents) for end in self._ends))

    def mean_kernel(self, count: int) -> torch.Tensor:
        return self._mean(*(end.mean_kernel(count) for end in self._ends))

    def _mean(self, initial: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
        return (initial + trained).mul_(0.5)
