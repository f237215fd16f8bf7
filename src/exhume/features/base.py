"""The FeatureMap protocol: what an attack may ask of a model's body."""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

import torch

from exhume.activations import Activation
from exhume.features.symmetry import Symmetry


class Linearisation(Protocol):
    """A feature map and its derivative at given inputs X (m, d); sample i has the Jacobian J_i (p, d)."""

    @property
    def features(self) -> torch.Tensor:
        """Phi(X), (m, p)."""

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        """Row i is J_i directions_i: (m, d) -> (m, p). One feature pass."""

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        """Row i is J_i^T cotangents_i: (m, p) -> (m, d). One feature pass."""

    def mean_kernel(self, count: int) -> torch.Tensor:
        """K_ij = tr(J_i^T J_j) / d of the first `count` rows, (count, count) float64: exact, in the mean or estimated.

        It costs `kernel_passes` feature passes.
        """

    @property
    def kernel_passes(self) -> int:
        """What `mean_kernel` costs."""


class FeatureMap(Protocol):
    """phi: R^d -> R^p, applied to the rows of a matrix.

    Examples:
        >>> import torch
        >>> from exhume import FeatureMap, RandomFeatures
        >>> features: FeatureMap = RandomFeatures(num_features=50).fit(torch.randn(3, 8), torch.ones(3)).feature_map_
        >>> features.input_dim, features.num_features, features.forward(torch.randn(2, 8)).shape
        (8, 50, torch.Size([2, 50]))
    """

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
    def symmetry(self) -> Symmetry:
        """What it hides of signs and norms."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Phi(X): (m, d) -> (m, p). One feature pass."""

    def linearise(self, inputs: torch.Tensor, inactive_slope: float = 0.0, linear_rows: int = 0) -> Linearisation:
        """Phi and its derivative at X. One feature pass; each jvp and vjp of the result is one more.

        Args:
            inputs: X (m, d).
            inactive_slope: slope that inactive ReLUs get in the derivative (the law's authors use 0.02).
            linear_rows: how many of the last rows pass without the activation (maps of the form act(V x) only).
        """

    def subset(self, rows: slice | torch.Tensor) -> Self:
        """Some of the features."""

    def with_dtype(self, dtype: torch.dtype) -> Self:
        """The same map in another precision, sharing its weights."""

    def identity(self) -> str:
        """A string that differs for different maps."""

    def to_json(self) -> dict[str, Any]:
        """What is needed to build it again, besides its tensors."""

    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors that are needed to build it again."""


@runtime_checkable
class RowFeatureMap(FeatureMap, Protocol):
    """phi(x) = act(V x): one feature a row of V, so that rows, activation and linear part can be had apart."""

    @property
    def activation(self) -> Activation:
        """act."""

    @property
    def has_offset(self) -> bool:
        """Whether it is act(V x + b) with b not zero."""

    def preactivate(self, inputs: torch.Tensor) -> torch.Tensor:
        """V x: (m, d) -> (m, p). One feature pass."""

    def pull_back(self, cotangents: torch.Tensor) -> torch.Tensor:
        """V^T c: (m, p) -> (m, d). One feature pass."""

    def weighted_moment(self, basis: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """V^T diag(weights) V b for every row b: (m, d), (p,) -> (m, d). Two feature passes, one read of V."""

    def pull_back_and_moment(
        self, cotangents: torch.Tensor, basis: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """V^T c for every row c (m, p), and V^T diag(weights) V b for every row b (l, d), in one read of V."""

    def second_moment(self, weights: torch.Tensor | None = None) -> torch.Tensor:
        """V^T diag(weights) V, (d, d); the cost of d rows."""

    def with_activation(self, activation: str | Activation) -> Self:
        """The same V under another activation."""


@runtime_checkable
class TrainedBody(FeatureMap, Protocol):
    """A feature map whose own weights were trained together with the head, so that the features drifted."""

    def drift(self, inputs: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
        """How far a body step along sum_j J_theta(x_j)^T c_j moves the features: (m, d), (m, p) -> (m, p).

        J_theta is the Jacobian in the body's weights. Two feature passes.
        """
