"""Subspaces that contain the training data: read off the first layer, or given.

Gradient descent moves the first layer inside the span of its inputs, W(T) = s W(0) + C^T X (s = 1 without weight
decay): the row space of W(T) - s W(0) is span(X), and its rank is the number of samples. A convolution moves inside the
span of its patches, and the inputs are those whose patches all lie there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from exhume.errors import InputError
from exhume.target.first_layer import first_layer
from exhume.target.network_weights import NetworkWeights

Source = Literal["given", "first-layer"]
# The rank is where singular values fall by this factor, from above to below these shares of the largest.
_FALL, _LEAST, _MOST_LEFT = 20.0, 1e-4, 1e-2
# Singular values computed first; four times as many until the rank is found.
_FIRST_LOOK = 64
# Inputs up to which the matrix of a convolution's patches is written out, and inputs that it is applied to at a time.
_MOST_INPUTS, _CHUNK = 4096, 64
# Eigenvalues of that matrix below this share of the largest are zero.
_NULL = 1e-6


@dataclass(frozen=True)
class DataSubspace:
    """A subspace that contains the training data.

    Attributes:
        basis: (r, d), orthonormal rows.
        source: where it comes from.
        spectrum: the singular values it was read off, largest first; empty if it was given.
        num_samples: how many samples span it; None if that is not known.
    """

    basis: torch.Tensor
    source: Source
    spectrum: tuple[float, ...] = ()
    num_samples: int | None = None

    @property
    def dim(self) -> int:
        """r."""
        return int(self.basis.shape[0])

    @property
    def sentence(self) -> str:
        """Where it comes from, in words."""
        text = f"Subspace: {self.dim} of {self.basis.shape[1]} dimensions"
        if self.source == "given":
            return f"{text}, given."
        if len(self.spectrum) > self.dim:
            last, rest = self.spectrum[self.dim - 1] / self.spectrum[0], self.spectrum[self.dim] / self.spectrum[0]
            return f"{text}, from the first layer's displacement (singular values fall from {last:.1e} to {rest:.1e})."
        return f"{text}, from the first layer's displacement."

    def lift(self, coordinates: torch.Tensor) -> torch.Tensor:
        """Samples x = sqrt(d/r) z B (m, d) from their coordinates z (m, r)."""
        basis = self.basis.to(coordinates)
        return coordinates @ basis * math.sqrt(basis.shape[1] / self.dim)

    def lower(self, samples: torch.Tensor) -> torch.Tensor:
        """Coordinates (m, r) of samples (m, d): norms of sqrt(d) become sqrt(r)."""
        coordinates = samples @ self.basis.to(samples).T
        return coordinates * math.sqrt(self.dim / samples.shape[1])


def given(rows: torch.Tensor) -> DataSubspace:
    """The subspace that some rows (m, d) span."""
    _, sizes, directions = torch.linalg.svd(rows.double(), full_matrices=False)
    if float(sizes[0]) == 0:
        raise InputError("the rows of the given subspace are all zero")
    rank = int((sizes > 1e-6 * sizes[0]).sum())
    return DataSubspace(directions[:rank].to(rows.dtype), "given")


def from_first_layer(model: NetworkWeights, input_shape: tuple[int, ...], generator: torch.Generator) -> DataSubspace:
    """The subspace that the displacement of a network's first layer spans.

    If the layer's initial weights are not known, the trained ones may span it too: long training with weight decay
    shrinks them onto the span of the data.
    """
    first = first_layer(model.module, input_shape)
    name, layer = first.name, first.layer
    if first.normalises:
        raise InputError(
            f"the input is normalised before layer {name!r}, which does not show the span of the data; give a subspace"
        )
    weight = layer.weight.detach().flatten(1)  # (h, d), or (channels, numbers in a patch)
    key = f"{name}.weight" if name else "weight"
    before = model.initial[key].flatten(1).to(weight) if key in model.initial else None
    basis, spectrum = _row_space(name, weight, before, generator)
    if isinstance(layer, nn.Linear):
        return DataSubspace(basis, "first-layer", spectrum, num_samples=len(basis))
    inputs = _inputs_of_patches(name, layer, basis, input_shape)
    return DataSubspace(inputs, "first-layer", (), num_samples=len(inputs))


def _row_space(
    name: str, weight: torch.Tensor, before: torch.Tensor | None, generator: torch.Generator
) -> tuple[torch.Tensor, tuple[float, ...]]:
    """Orthonormal rows that span W - s W(0), and its leading singular values; s is fitted if W(0) is given."""
    moved = weight if before is None else weight - before
    if not bool(moved.any()):
        raise InputError(f"the first layer {name!r} did not move in training")
    found = _by_gap(moved, generator)
    if found is None and before is not None:  # weight decay: fit the share of W(0) that remains, off the data's span
        share = float((weight * before).sum() / before.square().sum())
        for _ in range(3):
            moved = weight - share * before
            rough = torch.linalg.svd(moved.double(), full_matrices=False)[2][: min(weight.shape) // 2].to(weight)
            rest, old = weight - (weight @ rough.T) @ rough, before - (before @ rough.T) @ rough
            share = float((rest * old).sum() / old.square().sum().clamp_min(1e-30))
        found = _by_gap(weight - share * before, generator)
    if found is None:
        blind = "" if before is not None else "initial weights are not known, and "
        what = "trained weights" if before is None else "changes"
        raise InputError(
            f"{blind}the {what} of the first layer {name!r} ({weight.shape[0]} x {weight.shape[1]}) show no rank: "
            "their singular values do not fall to rounding. It takes plain gradient descent from known initial "
            "weights, and more rows and columns than samples (for a convolution, than patches of all samples); or give "
            "a subspace"
        )
    return found


def _by_gap(moved: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, tuple[float, ...]] | None:
    """The row space of a matrix with a gap in its spectrum, by a randomised range finder (Halko et al. 2011)."""
    least = min(moved.shape)
    look = min(_FIRST_LOOK, least)
    while True:
        drawn = torch.randn((moved.shape[0], look), generator=generator).to(moved)
        range_of = torch.linalg.qr(moved.T @ torch.linalg.qr(moved @ (moved.T @ drawn))[0])[0]  # (d, look)
        _, sizes, inner = torch.linalg.svd((moved @ range_of).double(), full_matrices=False)
        if float(sizes[0]) == 0:
            return None
        shares = sizes / sizes[0]
        falls = shares[:-1] / shares[1:].clamp_min(1e-12)
        clear = (falls > _FALL) & (shares[:-1] > _LEAST) & (shares[1:] < _MOST_LEFT)
        if bool(clear.any()):
            rank = int(clear.nonzero()[0]) + 1
            basis = (inner[:rank] @ range_of.double().T).to(moved.dtype)
            return torch.linalg.qr(basis.T)[0].T.contiguous(), tuple(sizes[: rank + 3].tolist())
        if look == least:
            return None
        look = min(4 * look, least)


def _inputs_of_patches(name: str, layer: nn.Conv2d, basis: torch.Tensor, input_shape: tuple[int, ...]) -> torch.Tensor:
    """Orthonormal inputs (r, d) all of whose patches lie in the rows of B = `basis`: fold (I - B^T B) unfold x = 0."""
    size = math.prod(input_shape)
    plain = layer.groups == 1 and layer.padding_mode == "zeros" and isinstance(layer.padding, tuple)
    if size > _MOST_INPUTS or not plain:
        raise InputError(
            f"the patches of the convolution {name!r} show the data's span for ungrouped, zero-padded layers and "
            f"inputs of at most {_MOST_INPUTS} numbers; this one takes {size}"
        )
    shape = {"kernel_size": layer.kernel_size, "stride": layer.stride, "dilation": layer.dilation}
    shape["padding"] = layer.padding  # type: ignore[assignment]
    basis = basis.double()
    outside = torch.empty((size, size), dtype=torch.float64, device=basis.device)
    for rows in torch.arange(size, device=basis.device).split(_CHUNK):
        pictures = nn.functional.one_hot(rows, size).double().reshape(-1, *input_shape)
        patches = nn.functional.unfold(pictures, **shape)  # (m, numbers in a patch, positions)
        patches = patches - basis.T @ (basis @ patches)
        outside[rows] = nn.functional.fold(patches, input_shape[1:], **shape).flatten(1)
    values, vectors = torch.linalg.eigh(0.5 * (outside + outside.T))
    inside = int((values < _NULL * values[-1]).sum())
    if inside == 0:
        raise InputError(f"no input has all its patches in the span that the convolution {name!r} shows")
    return vectors[:, :inside].T.to(layer.weight.dtype).contiguous()
