"""Feature maps composed of differentiable functions, with derivatives by torch.func."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self

import torch

from exhume.errors import InputError
from exhume.features.pass_counter import PassCounter
from exhume.features.pipeline.fourier import fourier_map
from exhume.features.pipeline.functions import Affine, Cosine, Selected, Step
from exhume.features.protocol import FeatureMap, Linearisation, Symmetry

# Rows at which a map is tried for symmetries, and their seed; positive, as some maps are defined there only.
_PROBES, _SEED = 4, 0


class FunctionMap(FeatureMap):
    """phi(x): some functions of rows, one after the other.

    Args:
        steps: the functions: frozen dataclasses whose fields are numbers and tensors, as in `functions`.
        input_dim: d.
        dtype: to compute in.
    """

    def __init__(self, steps: Sequence[Step], input_dim: int, dtype: torch.dtype = torch.float64) -> None:
        self.steps, self.input_dim, self.dtype = tuple(steps), input_dim, dtype
        self.device, self.counter = torch.device("cpu"), PassCounter()
        probes = torch.rand((_PROBES, input_dim), generator=torch.Generator().manual_seed(_SEED)).to(dtype)
        values = self.function(probes)
        if values.ndim != 2 or len(values) != _PROBES:
            raise InputError(f"features of shape {tuple(values.shape)} for {_PROBES} rows; valid: (rows, features)")
        self.num_features = values.shape[1]
        mirrored = self.function(-probes)  # not a number where the map is not defined there
        self.symmetry = Symmetry.measured(self.function, probes) if bool(torch.isfinite(mirrored).all()) else Symmetry()

    def function(self, rows: torch.Tensor) -> torch.Tensor:
        """Phi(X), not counted, differentiable."""
        for step in self.steps:
            rows = step(rows)
        return rows

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Phi(X) (m, p)."""
        self.count(len(inputs))
        return self.function(self.checked(inputs))

    def linearise(
        self, inputs: torch.Tensor, inactive_slope: float = 0.0, linear_rows: int = 0
    ) -> FunctionLinearisation:
        """Phi(X) and its derivative; `inactive_slope` is ignored."""
        if linear_rows:
            raise InputError(f"such a map has no linear part to solve for; linear_rows must be 0, got {linear_rows}")
        self.count(len(inputs))
        return FunctionLinearisation(self, self.checked(inputs))

    def subset(self, coordinates: slice | torch.Tensor) -> Self:
        """Some of the features; all are computed nevertheless."""
        chosen = torch.arange(self.num_features)[coordinates]
        other = copy.copy(self)
        other.steps, other.num_features = (*self.steps, Selected(chosen)), int(chosen.numel())
        return other

    def with_dtype(self, dtype: torch.dtype) -> Self:
        """The same functions, computed in another precision."""
        other = copy.copy(self)
        other.dtype = dtype
        return other

    def identity(self) -> str:
        """A hash of the functions and their tensors."""
        digest = hashlib.sha256(repr(self.input_dim).encode())
        for step in self.steps:
            digest.update(type(step).__name__.encode())
            for each in fields(step):  # type: ignore[arg-type]
                digest.update(_bytes(getattr(step, each.name)))
        return digest.hexdigest()


class FunctionLinearisation(Linearisation):
    """Phi(X) and its derivative, by forward and reverse differentiation."""

    def __init__(self, feature_map: FunctionMap, inputs: torch.Tensor) -> None:
        self._map, self._inputs = feature_map, inputs
        values, self._reverse, *_ = torch.func.vjp(feature_map.function, inputs)
        self.features = values.detach()

    def jvp(self, directions: torch.Tensor) -> torch.Tensor:
        """J_i directions_i."""
        self._map.count(len(directions))
        return torch.func.jvp(self._map.function, (self._inputs,), (directions,))[1]

    def vjp(self, cotangents: torch.Tensor) -> torch.Tensor:
        """J_i^T cotangents_i."""
        self._map.count(len(cotangents))
        return self._reverse(cotangents)[0]

    def mean_kernel(self, count: int) -> torch.Tensor:
        """tr(J_i^T J_j) / d, from the Jacobians. As many passes as inputs."""
        rows = self._inputs
        units = torch.eye(rows.shape[1]).to(rows)
        moved = torch.stack([self.jvp(unit.expand_as(rows).contiguous())[:count] for unit in units]).double()
        return torch.einsum("dip,djp->ij", moved, moved) / rows.shape[1]


def composed(steps: Sequence[Step], input_dim: int, dtype: torch.dtype = torch.float64) -> FeatureMap:
    """The map of these functions; as cos(W x + b), which is faster, if affine functions and one cosine make it."""
    *before, last = steps
    if not isinstance(last, Cosine) or not all(isinstance(step, Affine) for step in before):
        return FunctionMap(steps, input_dim, dtype)
    frequencies, phases = last.frequencies.double(), last.phases.double()
    for step in reversed(before):
        assert isinstance(step, Affine)
        phases = phases + frequencies @ step.offset.double()
        matrix = step.matrix.double()
        frequencies = frequencies * matrix if matrix.ndim == 1 else frequencies @ matrix
    return fourier_map(frequencies, phases, dtype)


def _bytes(value: Any) -> bytes:
    if isinstance(value, tuple):
        return b"".join(map(_bytes, value))
    if isinstance(value, torch.Tensor):
        return str(tuple(value.shape)).encode() + value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
    return repr(value).encode()
