"""Random features phi(x) = act(V x), Eq. (1), computed chunk by chunk over the rows of V."""

from __future__ import annotations

from typing import Any

import torch

from exhume import activations
from exhume.activations import Activation
from exhume.errors import FileError, InputError
from exhume.features.gaussian import GaussianMatrix, RowMatrix

KIND = "random_features"
# Columns per row from which the transposed product is faster (measured on two CPU cores: 10 x 3072 yes, 30 x 3072 no).
_WIDE = 150


class RandomFeatureMap:
    """phi(x) = act(V x) for the rows of a matrix V (p, d), usually Gaussian of variance 1/d and given by its seed."""

    def __init__(self, matrix: RowMatrix, activation: str | Activation, dtype: torch.dtype = torch.float32) -> None:
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
        features = self._empty(inputs.shape[0])
        for rows, part in self.matrix.chunks(self.dtype):
            features[:, rows] = self.activation.value(_times_rows(inputs, part))
        return features

    def linearise(self, inputs: torch.Tensor, inactive_slope: float = 0.0, linear_rows: int = 0) -> RandomLinearisation:
        """Phi(X) with the slopes act'(V x) that jvp and vjp need; the last `linear_rows` rows stay V x."""
        inputs = self._checked(inputs)
        count = inputs.shape[0] - linear_rows
        features, slopes = self._empty(inputs.shape[0]), self._empty(inputs.shape[0])
        slopes[count:] = 1
        for rows, part in self.matrix.chunks(self.dtype):
            linear = _times_rows(inputs, part)
            features[count:, rows] = linear[count:]
            preactivation = linear[:count]
            features[:count, rows] = self.activation.value(preactivation)
            slope = self.activation.slope(preactivation)
            if inactive_slope and self.activation.rectified:
                # sign(relu(z)) is 1 where z > 0; comparisons make booleans, which cost several times as much.
                slope = slope + inactive_slope * (1 - preactivation.relu().sign_())
            slopes[:count, rows] = slope
        return RandomLinearisation(self, features, slopes)

    def preactivate(self, inputs: torch.Tensor) -> torch.Tensor:
        """V x for every row, (m, p)."""
        inputs = self._checked(inputs)
        linear = self._empty(inputs.shape[0])
        for rows, part in self.matrix.chunks(self.dtype):
            linear[:, rows] = _times_rows(inputs, part)
        return linear

    def pull_back(self, cotangents: torch.Tensor) -> torch.Tensor:
        """V^T c for every row: (m, p) -> (m, d)."""
        out = torch.zeros((cotangents.shape[0], self.input_dim), dtype=self.dtype, device=self.device)
        for rows, part in self.matrix.chunks(self.dtype):
            out.addmm_(cotangents[:, rows], part)
        return out

    def second_moment(self, weights: torch.Tensor | None = None) -> torch.Tensor:
        """V^T diag(weights) V, (d, d); for dimensions in which such a matrix is small."""
        moment = torch.zeros((self.input_dim, self.input_dim), dtype=self.dtype, device=self.device)
        for rows, part in self.matrix.chunks(self.dtype):
            left = part if weights is None else part * weights[rows, None]
            moment.addmm_(left.T, part)
        return moment

    def with_dtype(self, dtype: torch.dtype) -> RandomFeatureMap:
        """The same V, cast chunk by chunk."""
        return RandomFeatureMap(self.matrix, self.activation, dtype)

    def with_activation(self, activation: str | Activation) -> RandomFeatureMap:
        """The same V under another activation."""
        return RandomFeatureMap(self.matrix, activation, self.dtype)

    def subset(self, rows: slice | torch.Tensor) -> RandomFeatureMap:
        """Some of the features."""
        return RandomFeatureMap(self.matrix.subset(rows), self.activation, self.dtype)

    def to_json(self) -> dict[str, Any]:
        """The map in words: V is its seed."""
        if not isinstance(self.matrix, GaussianMatrix):
            raise InputError("only features of a whole seeded matrix can be described in words")
        if self.activation.name not in activations.names() or activations.get(self.activation.name) != self.activation:
            raise InputError(f"activation {self.activation.name!r} must be registered before it can be saved by name")
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

    def _empty(self, rows: int) -> torch.Tensor:
        return torch.empty((rows, self.num_features), dtype=self.dtype, device=self.device)

    def _checked(self, inputs: torch.Tensor) -> torch.Tensor:
        if inputs.ndim != 2 or inputs.shape[1] != self.input_dim:
            raise InputError(f"inputs of shape {tuple(inputs.shape)} do not fit a map of (m, {self.input_dim}) rows")
        return inputs.to(device=self.device, dtype=self.dtype)


class RandomLinearisation:
    """Phi(X) and the diagonal-times-V Jacobians J_i = diag(act'(V x_i)) V."""

    def __init__(self, feature_map: RandomFeatureMap, features: torch.Tensor, slopes: torch.Tensor) -> None:
        self._map = feature_map
        self.features = features  # (m, p)
        self.slopes = slopes  # (m, p)

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        """act'(V x_i) o (V directions_i)."""
        out = torch.empty_like(self.slopes)
        for rows, part in self._map.matrix.chunks(self.slopes.dtype):
            torch.mul(self.slopes[:, rows], _times_rows(directions, part), out=out[:, rows])
        return out

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        """V^T (act'(V x_i) o cotangents_i)."""
        out = torch.zeros((cotangents.shape[0], self._map.input_dim), dtype=self.slopes.dtype, device=self._map.device)
        for rows, part in self._map.matrix.chunks(self.slopes.dtype):
            out.addmm_(self.slopes[:, rows] * cotangents[:, rows], part)
        return out


def _times_rows(inputs: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """inputs part^T.

    For few rows of many columns it is taken as (part inputs^T)^T: BLAS reads the tall factor about twice as fast.
    """
    if part.shape[1] >= _WIDE * inputs.shape[0]:
        return (part @ inputs.T).T
    return inputs @ part.T
