"""One-layer features phi(x) = act(V x + b), computed chunk by chunk over the rows of V."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from typing import Self

import torch

from exhume import activations
from exhume.activations import Activation
from exhume.errors import InputError
from exhume.features.matrix import DenseMatrix, RowMatrix, kept_as_it_fits
from exhume.features.pass_counter import PassCounter
from exhume.features.protocol import FeatureMap, Linearisation, Symmetry
from exhume.support.distributed import WHOLE, Coordinates

# Columns per row from which the transposed product is faster (measured on two CPU cores: 10 x 3072 yes, 30 x 3072 no).
_WIDE = 150
# Entries of an array over some rows of V that stay in the cache during several operations on it; and the fewest rows of
# V for one matrix product.
_CACHED, _LEAST_ROWS = 2**18, 1024


class OneLayerMap(FeatureMap):
    """phi(x) = act(V x + b) for the rows of a matrix V (p, d).

    Args:
        matrix: V, or the rows of it that this process holds.
        activation: act.
        dtype: to compute in.
        offset: b (p,), or None.
        coordinates: which features these rows are; `num_features` counts all, tensors have columns for those here.
        counter: where work is counted; by default in a new counter.
    """

    def __init__(
        self,
        matrix: RowMatrix,
        activation: str | Activation,
        dtype: torch.dtype = torch.float32,
        *,
        offset: torch.Tensor | None = None,
        coordinates: Coordinates = WHOLE,
        counter: PassCounter | None = None,
    ) -> None:
        if dtype not in (torch.float32, torch.float64):
            raise InputError(f"one-layer features are computed in float32 or float64, not {dtype}")
        self.matrix, self.offset, self.dtype = matrix, offset, dtype
        self.activation = activations.get(activation)
        self.coordinates, self.counter = coordinates, counter or PassCounter()
        self.num_features, self.input_dim = coordinates.count(matrix.shape[0]), matrix.shape[1]
        self.device = matrix.device
        self.symmetry = Symmetry.of_activation(self.activation) if offset is None else Symmetry()

    @property
    def has_offset(self) -> bool:
        """Whether b is there."""
        return self.offset is not None

    @property
    def is_kept(self) -> bool:
        """Whether no pass generates V."""
        return self.matrix.is_kept

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Phi(X) (m, p)."""
        inputs = self._counted(inputs)
        features = self._empty(inputs.shape[0])
        for rows, part in self.pieces(inputs.shape[0]):
            features[:, rows] = self.activation.value(self._shifted(_times_rows(inputs, part), rows))
        return features

    def linearise(
        self, inputs: torch.Tensor, inactive_slope: float = 0.0, linear_rows: int = 0
    ) -> OneLayerLinearisation:
        """Phi(X) with the slopes act'(V x + b) that jvp and vjp need; the last `linear_rows` rows stay V x."""
        inputs = self._counted(inputs)
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
        return OneLayerLinearisation(self, inputs, features, slopes)

    def matvec(self, inputs: torch.Tensor) -> torch.Tensor:
        """V x for every row, (m, p)."""
        inputs = self._counted(inputs)
        linear = self._empty(inputs.shape[0])
        for rows, part in self.matrix.chunks(self.dtype):
            linear[:, rows] = _times_rows(inputs, part)
        return linear

    def rmatvec(self, cotangents: torch.Tensor) -> torch.Tensor:
        """V^T c for every row: (m, p) -> (m, d)."""
        self.count(cotangents.shape[0])
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
        basis = self._counted(basis, 2)
        for rows, part in self.pieces(basis.shape[0]):
            out.addmm_(_times_rows(basis, part).mul_(weights[rows]), part)
        return self.coordinates.sum(out)

    def rmatvec_and_moment(
        self, cotangents: torch.Tensor, basis: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """V^T c and V^T diag(weights) V b, for every row c (m, p) and b (l, d), in one read of V."""
        self.count(cotangents.shape[0])
        basis = self._counted(basis, 2)
        pulled = torch.zeros((cotangents.shape[0], self.input_dim), dtype=self.dtype, device=self.device)
        moment = torch.zeros_like(basis)
        for rows, part in self.pieces(basis.shape[0]):
            pulled.addmm_(cotangents[:, rows], part)
            moment.addmm_(_times_rows(basis, part).mul_(weights[rows]), part)
        return self.coordinates.sum(pulled), self.coordinates.sum(moment)

    def second_moment(self, weights: torch.Tensor | None = None) -> torch.Tensor:
        """V^T diag(weights) V, (d, d), for small d. The cost of d rows."""
        self.count(self.input_dim)
        moment = torch.zeros((self.input_dim, self.input_dim), dtype=self.dtype, device=self.device)
        for rows, part in self.matrix.chunks(self.dtype):
            left = part if weights is None else part * weights[rows, None]
            moment.addmm_(left.T, part)
        return self.coordinates.sum(moment)

    def with_dtype(self, dtype: torch.dtype) -> Self:
        """The same V, cast chunk by chunk."""
        other = copy.copy(self)
        other.dtype = dtype
        return other

    def with_activation(self, activation: str | Activation) -> Self:
        """The same V under another activation."""
        other = copy.copy(self)
        other.activation = activations.get(activation)
        other.symmetry = Symmetry.of_activation(other.activation) if self.offset is None else Symmetry()
        return other

    def kept_as_it_fits(self, dtype: torch.dtype = torch.float32) -> Self:
        """The map of the same V, of which what fits the budget is kept.

        In float16 that is twice as much, converted as it is read, for early work: features, computed in the same
        precision as before, differ by about 2e-4 of their size.
        """
        return self if self.is_kept else self.with_matrix(kept_as_it_fits(self.matrix, dtype))

    def with_matrix(self, matrix: RowMatrix) -> Self:
        """The same rows of V, stored in another way."""
        other = copy.copy(self)
        other.matrix, other.input_dim = matrix, matrix.shape[1]
        return other

    def subset(self, coordinates: slice | torch.Tensor) -> Self:
        """Some of the features."""
        here = self.coordinates.local(coordinates)
        return self.with_rows(self.matrix.subset(here), here, self.coordinates.subset(coordinates))

    def with_rows(self, matrix: RowMatrix, here: slice | torch.Tensor, coordinates: Coordinates) -> Self:
        """The map of some rows of V, which stand `here` among its own and are these coordinates."""
        other = self.with_matrix(matrix)
        other.offset = None if self.offset is None else self.offset[here]
        other.coordinates, other.num_features = coordinates, coordinates.count(matrix.shape[0])
        return other

    def in_basis(self, basis: torch.Tensor, scale: float) -> Self:
        """phi(scale z B) for an orthonormal basis B (r, d): again of this form, with V' = scale V B^T (p, r).

        V' is formed and kept. The cost of r rows.
        """
        self.count(basis.shape[0])
        entries = self._empty(basis.shape[0]).T.contiguous()
        columns = scale * basis.to(entries).T
        for rows, part in self.matrix.chunks(self.dtype):
            entries[rows] = part @ columns
        return self.with_matrix(DenseMatrix(entries))

    def identity(self) -> str:
        """A hash of V, b and the activation."""
        digest = hashlib.sha256(self.activation.name.encode())
        for _, part in self.matrix.chunks():
            digest.update(part.cpu().numpy().tobytes())
        if self.offset is not None:
            digest.update(self.offset.cpu().numpy().tobytes())
        return digest.hexdigest()

    def _shifted(self, linear: torch.Tensor, rows: slice) -> torch.Tensor:
        """V x + b."""
        return linear if self.offset is None else linear + self.offset[rows].to(linear.dtype)

    def _empty(self, rows: int) -> torch.Tensor:
        return torch.empty((rows, self.matrix.shape[0]), dtype=self.dtype, device=self.device)

    def _counted(self, inputs: torch.Tensor, times: int = 1) -> torch.Tensor:
        """The inputs, checked, and so many applications to them counted."""
        self.count(times * len(inputs))
        return self.checked(inputs)


class OneLayerLinearisation(Linearisation):
    """Phi(X) and the diagonal-times-V Jacobians J_i = diag(act'(V x_i)) V."""

    def __init__(
        self, feature_map: OneLayerMap, inputs: torch.Tensor, features: torch.Tensor, slopes: torch.Tensor
    ) -> None:
        self._map = feature_map
        self._inputs = inputs  # (m, d)
        self.features = features  # (m, p)
        self.slopes = slopes  # (m, p)
        self.generates_matrix = not feature_map.is_kept

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        """act'(V x_i) o (V directions_i)."""
        self._map.count(directions.shape[0])
        out = torch.empty_like(self.slopes)
        for rows, part in self._map.pieces(directions.shape[0]):
            torch.mul(self.slopes[:, rows], _times_rows(directions, part), out=out[:, rows])
        return out

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        """V^T (act'(V x_i) o cotangents_i)."""
        self._map.count(cotangents.shape[0])
        out = torch.zeros((cotangents.shape[0], self._map.input_dim), dtype=self.slopes.dtype, device=self._map.device)
        for rows, part in self._map.pieces(cotangents.shape[0]):
            out.addmm_(self.slopes[:, rows] * cotangents[:, rows], part)
        return self._map.coordinates.sum(out)

    def weighted_jvp(self, weights: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        """sum_i w_i J_i directions_i: (m, k), (m, d) -> (k, p), without an array (m, p)."""
        self._map.count(directions.shape[0])
        out = self.slopes.new_empty((weights.shape[1], self.slopes.shape[1]))
        tall = self._map.input_dim >= _WIDE * directions.shape[0]  # see `_times_rows`
        for rows, part in self._map.pieces(directions.shape[0]):
            moved = (part @ directions.T).T if tall else directions @ part.T
            torch.mm(weights.T, self.slopes[:, rows] * moved, out=out[:, rows])
        return out

    def weighted_vjp(self, weights: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
        """The adjoint of `weighted_jvp` in the directions: (m, k), (k, p) -> (m, d)."""
        self._map.count(weights.shape[0])
        single = weights.shape[1] == 1  # its weights are put in at the end
        out = self.slopes.new_zeros((weights.shape[0], self._map.input_dim))
        for rows, part in self._map.pieces(weights.shape[0]):
            change = cotangents[:, rows] if single else weights @ cotangents[:, rows]
            out.addmm_(self.slopes[:, rows] * change, part)
        return self._map.coordinates.sum(out.mul_(weights) if single else out)

    def normal_product(
        self, weights: torch.Tensor, directions: torch.Tensor, change: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As in the protocol, in one read of V."""
        self._map.count(2 * directions.shape[0])
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
