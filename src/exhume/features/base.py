"""The FeatureMap protocol: what an attack may ask of a model's body."""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

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

    def to_json(self) -> dict[str, Any]:
        """What is needed to build it again."""


@runtime_checkable
class RowFeatureMap(FeatureMap, Protocol):
    """phi(x) = act(V x): one feature a row of V, so that rows, activation and linear part can be had apart."""

    def preactivate(self, inputs: torch.Tensor) -> torch.Tensor:
        """V x: (m, d) -> (m, p). One feature pass."""

    def pull_back(self, cotangents: torch.Tensor) -> torch.Tensor:
        """V^T c: (m, p) -> (m, d). One feature pass."""

    def second_moment(self, weights: torch.Tensor | None = None) -> torch.Tensor:
        """V^T diag(weights) V, (d, d); the cost of d rows."""

    def with_activation(self, activation: str | Activation) -> Self:
        """The same V under another activation."""
