"""Random features phi(x) = act(V x), Eq. (1), computed chunk by chunk over the rows of V."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, Self

import torch

from exhume import activations
from exhume.activations import Activation
from exhume.errors import FileError, InputError
from exhume.features.gaussian import GaussianMatrix, RowMatrix
from exhume.features.partly_kept import kept_as_it_fits
from exhume.features.symmetry import Symmetry
from exhume.sharding import WHOLE, Coordinates

KIND = "random_features"
# Columns per row from which the transposed product is faster (measured on two CPU cores: 10 x 3072 yes, 30 x 3072 no).
_WIDE = 150
# Entries of an array over some rows of V that stay in the cache while several operations go over it; and rows of V from
# which a matrix product is worth calling.
_CACHED, _LEAST_ROWS = 2**18, 1024


class RandomFeatureMap:
    """phi(x) = act(V x) for the rows of a matrix V (p, d), usually Gaussian of variance 1/d and given by its seed.

    Args:
        matrix: V, or the rows of it that this process holds.
        activation: act.
        dtype: to compute in.
        coordinates: which features these rows are; `num_features` counts all, tensors have columns for those here.
    """

    has_offset = False

    def __init__(
        self,
        matrix: RowMatrix,
        activation: str | Activation,
        dtype: torch.dtype = torch.float32,
        *,
        coordinates: Coordinates = WHOLE,
    ) -> None:
        if dtype not in (torch.float32, torch.float64):
            raise InputError(f"random features compute in float32 or float64, not {dtype}")
        self.matrix = matrix
        self.activation = activations.get(activation)
        self.dtype = dtype
        self.coordinates = coordinates
        self.num_features, self.input_dim = coordinates.count(matrix.shape[0]), matrix.shape[1]
        self.device = matrix.device
        self.symmetry = Symmetry.of_activation(self.activation)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Phi(X) (m, p)."""
        inputs = self._checked(inputs)
        features = self._empty(inputs.shape[0])
        for rows, part in self.pieces(inputs.shape[0]):
            features[:, rows] = self.activation.value(self._shifted(_times_rows(inputs, part), rows))
        return features

    def linearise(self, inputs: torch.Tensor, inactive_slope: float = 0.0, linear_rows: int = 0) -> RandomLinearisation:
        """Phi(X) with the slopes act'(V x) that jvp and vjp need; the last `linear_rows` rows stay V x."""
        inputs = self._checked(inputs)
        count = inputs.shape[0] - linear_rows
        features, slopes = self._empty(inputs.shape[0]), self._empty(inputs.shape[0])
        slopes[count:] = 1
        for rows, part in self.pieces(inputs.shape[0]):
            linear = _times_rows(inputs, part)
            features[count:, rows] = linear[count:]
            preactivation = self._shifted(linear[:count], rows)
            features[:count, rows] = self.activation.value(preactivation)
            slope = self.activation.slope(preactivation)
            if inactive_slope and self.activation.rectified:
                # sign(relu(z)) is 1 where z > 0; comparisons make booleans, which cost several times as much.
                slope = slope + inactive_slope * (1 - preactivation.relu().sign_())
            slopes[:count, rows] = slope
        return RandomLinearisation(self, inputs, features, slopes)

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
        return self.coordinates.sum(out)

    def pieces(self, width: int) -> Iterator[tuple[slice, torch.Tensor]]:
        """Chunks of V, cut so that arrays of `width` numbers for each of their rows stay in the cache."""
        step = max(_LEAST_ROWS, _CACHED // max(width, 1))
        for rows, part in self.matrix.chunks(self.dtype):
            for start in range(0, part.shape[0], step):
                stop = min(start + step, part.shape[0])
                yield slice(rows.start + start, rows.start + stop), part[start:stop]

    def weighted_moment(self, basis: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """V^T diag(weights) V b for every row b: (m, d), (p,) -> (m, d). Two feature passes, one read of V."""
        out = torch.zeros((basis.shape[0], self.input_dim), dtype=self.dtype, device=self.device)
        basis = self._checked(basis)
        for rows, part in self.pieces(basis.shape[0]):
            out.addmm_(_times_rows(basis, part).mul_(weights[rows]), part)
        return self.coordinates.sum(out)

    def pull_back_and_moment(
        self, cotangents: torch.Tensor, basis: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """V^T c and V^T diag(weights) V b, for every row c (m, p) and b (l, d), in one read of V."""
        basis = self._checked(basis)
        pulled = torch.zeros((cotangents.shape[0], self.input_dim), dtype=self.dtype, device=self.device)
        moment = torch.zeros_like(basis)
        for rows, part in self.pieces(basis.shape[0]):
            pulled.addmm_(cotangents[:, rows], part)
            moment.addmm_(_times_rows(basis, part).mul_(weights[rows]), part)
        return self.coordinates.sum(pulled), self.coordinates.sum(moment)

    def second_moment(self, weights: torch.Tensor | None = None) -> torch.Tensor:
        """V^T diag(weights) V, (d, d); for dimensions in which such a matrix is small."""
        moment = torch.zeros((self.input_dim, self.input_dim), dtype=self.dtype, device=self.device)
        for rows, part in self.matrix.chunks(self.dtype):
            left = part if weights is None else part * weights[rows, None]
            moment.addmm_(left.T, part)
        return self.coordinates.sum(moment)

    def with_dtype(self, dtype: torch.dtype) -> Self:
        """The same V, cast chunk by chunk."""
        return self._like(dtype=dtype)

    def with_activation(self, activation: str | Activation) -> Self:
        """The same V under another activation."""
        return self._like(activation=activation)

    def kept_as_it_fits(self, dtype: torch.dtype = torch.float32) -> Self:
        """The map of the same V, of which what fits the budget is kept.

        In float16 that is twice as much, converted as it is read, for early work: features, computed in the same
        precision as before, differ by about 2e-4 of their size.
        """
        other = copy.copy(self)
        other.matrix = kept_as_it_fits(self.matrix, dtype)
        return other

    def subset(self, rows: slice | torch.Tensor) -> Self:
        """Some of the features."""
        return self._like(rows=rows)

    def identity(self) -> str:
        """The map in words, as one string."""
        return json.dumps(self.to_json(), sort_keys=True)

    def tensors(self) -> dict[str, torch.Tensor]:
        """None: V is its seed."""
        return {}

    def to_json(self) -> dict[str, Any]:
        """The map in words: V is its seed."""
        seeded = self.matrix if isinstance(self.matrix, GaussianMatrix) else None
        if seeded is None or not seeded.is_defined_by_seed or self.coordinates is not WHOLE:
            raise InputError("only features of a whole seeded matrix can be described in words")
        if self.activation.name not in activations.names() or activations.get(self.activation.name) != self.activation:
            raise InputError(f"activation {self.activation.name!r} must be registered before it can be saved by name")
        return {
            "kind": KIND,
            "num_features": self.num_features,
            "input_dim": self.input_dim,
            "activation": self.activation.name,
            "seed": seeded.seed,
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
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FileError(f"the description of the random features is incomplete or wrong: {error!r}") from error
        return cls(GaussianMatrix(*sizes, memory_budget=memory_budget, device=device), name, dtype)

    def _like(
        self,
        *,
        rows: slice | torch.Tensor | None = None,
        activation: str | Activation | None = None,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """This map with some of its rows, another activation or another precision."""
        matrix, _, coordinates = self._restricted(rows)
        return type(self)(matrix, activation or self.activation, dtype or self.dtype, coordinates=coordinates)

    def _restricted(self, rows: slice | torch.Tensor | None) -> tuple[RowMatrix, slice | torch.Tensor, Coordinates]:
        """The rows of V for some features, where they stand among those here, and which features they are."""
        if rows is None:
            return self.matrix, slice(None), self.coordinates
        here = self.coordinates.local(rows)
        return self.matrix.subset(here), here, self.coordinates.subset(rows)

    def _shifted(self, linear: torch.Tensor, rows: slice) -> torch.Tensor:
        """V x + b for maps that have a b."""
        return linear

    def _empty(self, rows: int) -> torch.Tensor:
        return torch.empty((rows, self.matrix.shape[0]), dtype=self.dtype, device=self.device)

    def _checked(self, inputs: torch.Tensor) -> torch.Tensor:
        if inputs.ndim != 2 or inputs.shape[1] != self.input_dim:
            raise InputError(f"inputs of shape {tuple(inputs.shape)} do not fit a map of (m, {self.input_dim}) rows")
        return inputs.to(device=self.device, dtype=self.dtype)


class RandomLinearisation:
    """Phi(X) and the diagonal-times-V Jacobians J_i = diag(act'(V x_i)) V."""

    kernel_passes = 0  # in closed form

    def __init__(
        self, feature_map: RandomFeatureMap, inputs: torch.Tensor, features: torch.Tensor, slopes: torch.Tensor
    ) -> None:
        self._map = feature_map
        self._inputs = inputs  # (m, d)
        self.features = features  # (m, p)
        self.slopes = slopes  # (m, p)

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        """act'(V x_i) o (V directions_i)."""
        out = torch.empty_like(self.slopes)
        for rows, part in self._map.pieces(directions.shape[0]):
            torch.mul(self.slopes[:, rows], _times_rows(directions, part), out=out[:, rows])
        return out

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        """V^T (act'(V x_i) o cotangents_i)."""
        out = torch.zeros((cotangents.shape[0], self._map.input_dim), dtype=self.slopes.dtype, device=self._map.device)
        for rows, part in self._map.pieces(cotangents.shape[0]):
            out.addmm_(self.slopes[:, rows] * cotangents[:, rows], part)
        return self._map.coordinates.sum(out)

    def weighted_jvp(self, weights: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        """sum_i w_i J_i directions_i: (m, k), (m, d) -> (k, p), without an array (m, p). One feature pass."""
        out = self.slopes.new_empty((weights.shape[1], self.slopes.shape[1]))
        for rows, part in self._map.pieces(directions.shape[0]):
            torch.mm(weights.T, self.slopes[:, rows] * _times_rows(directions, part), out=out[:, rows])
        return out

    def weighted_vjp(self, weights: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
        """The adjoint of `weighted_jvp` in the directions: (m, k), (k, p) -> (m, d). One feature pass."""
        single = weights.shape[1] == 1  # its weights are put in at the end
        out = self.slopes.new_zeros((weights.shape[0], self._map.input_dim))
        for rows, part in self._map.pieces(weights.shape[0]):
            change = cotangents[:, rows] if single else weights @ cotangents[:, rows]
            out.addmm_(self.slopes[:, rows] * change, part)
        return self._map.coordinates.sum(out.mul_(weights) if single else out)

    @property
    def generates_anew(self) -> bool:
        """Whether V, or a part of it, is generated for every derivative."""
        return not self._map.matrix.is_kept

    def sweep(
        self, weights: torch.Tensor, directions: torch.Tensor, change: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """r = sum_i w_i J_i directions_i + change^T Phi; V^T (act' o w r) and Phi r^T. Two passes, one read of V.

        Args:
            weights: w (m, k).
            directions: (m, d).
            change: (n, k) for the first n rows.
        """
        count = change.shape[0]
        image = self.slopes.new_zeros(directions.shape)
        moments = torch.zeros_like(change)
        for rows, part in self._map.pieces(directions.shape[0]):
            slopes, features = self.slopes[:, rows], self.features[:count, rows]
            moved = weights.T @ (slopes * _times_rows(directions, part))  # (k, rows)
            moved.addmm_(change.T, features)
            moments.addmm_(features, moved.T)
            image.addmm_(slopes * (weights @ moved), part)
        return self._map.coordinates.sum(image), self._map.coordinates.sum(moments)

    def mean_kernel(self, count: int) -> torch.Tensor:
        """(p/d) E[act'(z_i) act'(z_j)] over Gaussian rows of V, in closed form."""
        unit = torch.nn.functional.normalize(self._inputs[:count].double(), dim=1)
        return self._map.activation.slope_kernel(unit @ unit.T) * (self._map.num_features / self._map.input_dim)


def _times_rows(inputs: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """inputs part^T.

    For few rows of many columns it is taken as (part inputs^T)^T: BLAS reads the tall factor about twice as fast.
    """
    if part.shape[1] >= _WIDE * inputs.shape[0]:
        return (part @ inputs.T).T
    return inputs @ part.T
