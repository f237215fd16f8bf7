"""What an attack may ask of a model's body: a feature map, its derivative, its symmetry, and further capabilities."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, Self, runtime_checkable

import torch

from exhume.activations import Activation
from exhume.errors import InputError
from exhume.features.pass_counter import PassCounter
from exhume.support.distributed import WHOLE, Coordinates

Parity = Literal["even", "odd", "none"]
# Deviation, relative to the features themselves, up to which two of them are the same (float32 bodies round to 1e-6).
_SAME = 1e-4
# How far inputs are stretched to see whether features are homogeneous; far, as some bend only there (relu6).
_FAR = 20.0


@dataclass(frozen=True)
class Symmetry:
    """How phi(r x) and phi(-x) relate to phi(x): what features hide of a sample's norm and sign.

    Attributes:
        parity: "even" or "odd" if phi(-x) = phi(x) or -phi(x), which hides signs for good.
        homogeneous: phi(r x) = r^q phi(x) for r > 0, so that x and r x span the same.
        signs_identified: whether the non-linear part alone determines signs, as descent needs (the paper's Remark 1).
    """

    parity: Parity = "none"
    homogeneous: bool = False
    signs_identified: bool = True

    @property
    def identifies_norm(self) -> bool:
        """Whether a sample's norm shows in the span of its features."""
        return not self.homogeneous

    @classmethod
    @lru_cache(maxsize=64)
    def of_activation(cls, activation: Activation) -> Symmetry:
        """That of act(V x)."""
        return cls(activation.parity, activation.homogeneity is not None, activation.signs_identified)

    @classmethod
    def measured(cls, features: Callable[[torch.Tensor], torch.Tensor], inputs: torch.Tensor) -> Symmetry:
        """That of any map, measured from its values at some inputs (m, d)."""
        at, mirrored, stretched = features(inputs), features(-inputs), features(_FAR * inputs)
        scale = float(at.norm())
        parity: Parity = "none"
        if float((mirrored - at).norm()) < _SAME * scale:
            parity = "even"
        elif float((mirrored + at).norm()) < _SAME * scale:
            parity = "odd"
        stretch = float((stretched * at).sum()) / max(scale**2, 1e-300)
        homogeneous = float((stretched - stretch * at).norm()) < _SAME * max(stretch, 1.0) * scale
        return cls(parity, homogeneous, signs_identified=parity == "none")


class Linearisation(Protocol):
    """A feature map and its derivative at given inputs X (m, d); sample i has the Jacobian J_i (p, d).

    Attributes:
        features: Phi(X), (m, p).
        generates_matrix: whether every derivative generates the map's matrix V, so that `normal_product` pays.
    """

    features: torch.Tensor
    generates_matrix: bool = False

    @abstractmethod
    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        """Row i is J_i directions_i: (m, d) -> (m, p). One feature pass."""

    @abstractmethod
    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        """Row i is J_i^T cotangents_i: (m, p) -> (m, d). One feature pass."""

    @abstractmethod
    def mean_kernel(self, count: int) -> torch.Tensor:
        """K_ij = tr(J_i^T J_j) / d of the first `count` rows, (count, count) float64: exact, in the mean or estimated.

        An estimate costs a few feature passes.
        """

    def weighted_jvp(self, weights: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        """sum_i w_i J_i directions_i: (m, k), (m, d) -> (k, p). One feature pass."""
        return weights.T @ self.jvp(directions)

    def weighted_vjp(self, weights: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
        """The adjoint of `weighted_jvp` in the directions: (m, k), (k, p) -> (m, d). One feature pass."""
        return self.vjp(weights @ cotangents)

    def normal_product(
        self, weights: torch.Tensor, directions: torch.Tensor, change: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """With r = sum_i w_i J_i directions_i + change^T Phi: the adjoint of r, (m, d), and Phi r^T, (n, k).

        Two passes.

        Args:
            weights: w (m, k).
            directions: (m, d).
            change: (n, k) for the first n rows.
        """
        features = self.features[: change.shape[0]]
        combined = self.weighted_jvp(weights, directions) + change.T @ features
        return self.weighted_vjp(weights, combined), features @ combined.T


class FeatureMap(Protocol):
    """phi: R^d -> R^p, applied to the rows of a matrix.

    Attributes:
        num_features: p.
        input_dim: d.
        dtype: the precision it computes in.
        device: where it computes.
        symmetry: whether phi(-x) and phi(r x) can be told from phi(x).
        counter: counts feature passes.
        coordinates: which features its tensors hold: all, unless it is one process's part of a map.

    Examples:
        >>> import torch
        >>> from exhume import FeatureMap, RandomFeatures
        >>> features: FeatureMap = RandomFeatures(num_features=50).fit(torch.randn(3, 8), torch.ones(3)).feature_map_
        >>> features.input_dim, features.num_features, features.forward(torch.randn(2, 8)).shape
        (8, 50, torch.Size([2, 50]))
    """

    num_features: int
    input_dim: int
    dtype: torch.dtype
    device: torch.device
    symmetry: Symmetry
    counter: PassCounter
    coordinates: Coordinates = WHOLE

    @abstractmethod
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Phi(X): (m, d) -> (m, p). One feature pass."""

    @abstractmethod
    def linearise(self, inputs: torch.Tensor, inactive_slope: float = 0.0, linear_rows: int = 0) -> Linearisation:
        """Phi and its derivative at X. One feature pass; each jvp and vjp of the result is one more.

        Args:
            inputs: X (m, d).
            inactive_slope: slope that inactive ReLUs get in the derivative (the law's authors use 0.02).
            linear_rows: how many of the last rows pass without the activation (maps of the form act(V x) only).
        """

    @abstractmethod
    def subset(self, coordinates: slice | torch.Tensor) -> Self:
        """Some of the features."""

    @abstractmethod
    def with_dtype(self, dtype: torch.dtype) -> Self:
        """The same map in another precision, sharing its weights."""

    @abstractmethod
    def identity(self) -> str:
        """A string that differs for different maps."""

    def with_counter(self, counter: PassCounter) -> Self:
        """The same map, which counts its work elsewhere."""
        other = copy.copy(self)
        other.counter = counter
        return other

    def kept_as_it_fits(self, dtype: torch.dtype = torch.float32) -> Self:
        """The same map, keeping as much of its matrix V as its memory budget allows; itself if it has no V."""
        return self

    def checked(self, inputs: torch.Tensor) -> torch.Tensor:
        """Inputs (m, d) in the map's precision and on its device; an error if their shape is another."""
        if inputs.ndim != 2 or inputs.shape[1] != self.input_dim:
            raise InputError(f"inputs of shape {tuple(inputs.shape)} do not fit a map of (m, {self.input_dim}) rows")
        return inputs.to(device=self.device, dtype=self.dtype)

    def count(self, rows: float) -> None:
        """Counts an application to some rows."""
        self.counter.add(rows, self.num_features, self.input_dim)


@runtime_checkable
class OneLayerFeatures(FeatureMap, Protocol):
    """phi(x) = act(V x + b): one feature a row of V, so that rows, activation and linear part are available.

    Attributes:
        activation: act.
    """

    activation: Activation

    @property
    def has_offset(self) -> bool:
        """Whether b is not zero."""

    @property
    def is_kept(self) -> bool:
        """Whether V is in memory, so that no pass generates it."""

    def matvec(self, inputs: torch.Tensor) -> torch.Tensor:
        """V x: (m, d) -> (m, p). One feature pass."""

    def rmatvec(self, cotangents: torch.Tensor) -> torch.Tensor:
        """V^T c: (m, p) -> (m, d). One feature pass."""

    def weighted_moment(self, basis: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """V^T diag(weights) V b for every row b: (m, d), (p,) -> (m, d). Two feature passes, one read of V."""

    def rmatvec_and_moment(
        self, cotangents: torch.Tensor, basis: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """V^T c for every row c (m, p), and V^T diag(weights) V b for every row b (l, d), in one read of V."""

    def second_moment(self, weights: torch.Tensor | None = None) -> torch.Tensor:
        """V^T diag(weights) V, (d, d); the cost of d rows."""

    def with_activation(self, activation: str | Activation) -> Self:
        """The same V under another activation."""


@runtime_checkable
class TrainedBody(Protocol):
    """A feature map whose own weights were trained together with the head, so that the features drifted."""

    def drift(self, inputs: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
        """How far a body step along sum_j J_theta(x_j)^T c_j moves the features: (m, d), (m, p) -> (m, p).

        J_theta is the Jacobian in the body's weights. Two feature passes at most.
        """


@runtime_checkable
class Saveable(Protocol):
    """A feature map that files can describe."""

    def to_json(self) -> dict[str, Any]:
        """What is needed to build it again, besides its tensors."""

    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors that are needed to build it again."""
