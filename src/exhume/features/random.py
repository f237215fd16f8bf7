"""Random features phi(x) = act(V x), Eq. (1), computed chunk by chunk over the rows of V."""

from __future__ import annotations

from typing import Any

import torch

from exhume import activations
from exhume.activations import Activation
from exhume.errors import FileError, InputError
from exhume.features.gaussian import GaussianMatrix

KIND = "random_features"
# Columns per row from which the transposed product is faster (measured on two CPU cores: 10 x 3072 yes, 30 x 3072 no).
_WIDE = 150


class RandomFeatureMap:
    """phi(x) = act(V x) with V (p, d) Gaussian of variance 1/d, given by its seed."""

    def __init__(
        self, matrix: GaussianMatrix, activation: str | Activation, dtype: torch.dtype = torch.float32
    ) -> None:
        if dtype not in (torch.float32, torch.float64):
            raise InputError(f"random features compute in float32 or float64, not {dtype}")
        self.matrix = matrix
        self.activation = activations.get(activation)
        self.dtype = dtype
        self.num_features, self.input_dim = matrix.shape
        self.device = matrix.device

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Phi(X) (m, p)."""
        inputs = self._checked(inputs)
        features = torch.empty((inputs.shape[0], self.num_features), dtype=self.dtype, device=self.device)
        for rows, part in self.matrix.chunks(self.dtype):
            features[:, rows] = self.activation.value(_times_rows(inputs, part))
        return features

    def linearise(self, inputs: torch.Tensor, inactive_slope: float = 0.0) -> RandomLinearisation:
        """Phi(X) with the slopes act'(V x) that jvp and vjp need."""
        inputs = self._checked(inputs)
        features = torch.empty((inputs.shape[0], self.num_features), dtype=self.dtype, device=self.device)
        slopes = torch.empty_like(features)
        for rows, part in self.matrix.chunks(self.dtype):
            preactivation = _times_rows(inputs, part)
            features[:, rows] = self.activation.value(preactivation)
            slope = self.activation.slope(preactivation)
            if inactive_slope and self.activation.rectified:
                # sign(relu(z)) is 1 where z > 0; comparisons make booleans, which cost several times as much.
                slope = slope + inactive_slope * (1 - preactivation.relu_().sign_())
            slopes[:, rows] = slope
        return RandomLinearisation(self.matrix, features, slopes)

    def with_dtype(self, dtype: torch.dtype) -> RandomFeatureMap:
        """The same V, cast chunk by chunk."""
        return RandomFeatureMap(self.matrix, self.activation, dtype)

    def to_json(self) -> dict[str, Any]:
        """The map in words: V is its seed."""
        return {
            "kind": KIND,
            "num_features": self.num_features,
            "input_dim": self.input_dim,
            "activation": self.activation.name,
            "seed": self.matrix.seed,
            "dtype": str(self.dtype).removeprefix("torch."),
        }

    @classmethod
    def from_json(
        cls, value: dict[str, Any], *, memory_budget: int | str = "4GB", device: torch.device | str = "cpu"
    ) -> RandomFeatureMap:
        """Builds the map from `to_json`'s words."""
        try:
            sizes = int(value["num_features"]), int(value["input_dim"]), int(value["seed"])
            name, dtype = str(value["activation"]), {"float32": torch.float32, "float64": torch.float64}[value["dtype"]]
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(f"the description of the random features is incomplete or wrong: {error!r}") from error
        return cls(GaussianMatrix(*sizes, memory_budget=memory_budget, device=device), name, dtype)

    def _checked(self, inputs: torch.Tensor) -> torch.Tensor:
        if inputs.ndim != 2 or inputs.shape[1] != self.input_dim:
            raise InputError(f"inputs of shape {tuple(inputs.shape)} do not fit a map of (m, {self.input_dim}) rows")
        return inputs.to(device=self.device, dtype=self.dtype)


class RandomLinearisation:
    """Phi(X) and the diagonal-times-V Jacobians J_i = diag(act'(V x_i)) V."""

    def __init__(self, matrix: GaussianMatrix, features: torch.Tensor, slopes: torch.Tensor) -> None:
        self._matrix = matrix
        self.features = features  # (m, p)
        self.slopes = slopes  # (m, p)

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        """act'(V x_i) o (V directions_i)."""
        out = torch.empty_like(self.slopes)
        for rows, part in self._matrix.chunks(self.slopes.dtype):
            torch.mul(self.slopes[:, rows], _times_rows(directions, part), out=out[:, rows])
        return out

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        """V^T (act'(V x_i) o cotangents_i)."""
        out = torch.zeros(
            (cotangents.shape[0], self._matrix.shape[1]), dtype=cotangents.dtype, device=cotangents.device
        )
        for rows, part in self._matrix.chunks(self.slopes.dtype):
            out.addmm_(self.slopes[:, rows] * cotangents[:, rows], part)
        return out


def _times_rows(inputs: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """inputs part^T.

    For few rows of many columns it is taken as (part inputs^T)^T: BLAS reads the tall factor about twice as fast.
    """
    if part.shape[1] >= _WIDE * inputs.shape[0]:
        return (part @ inputs.T).T
    return inputs @ part.T
