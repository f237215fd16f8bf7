"""The hall of the data house: what a data set is, and how its vectors become pictures again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from exhume.data.checks import one_of
from exhume.data.tables import TableFormat
from exhume.errors import InputError

STANDARDISATIONS = ("subset", "channel", "none")
# What each norm adds to a protocol. The original norms are lost, so pictures can only show the rescaled rows.
NORM_WORDS = {
    "keep": "",
    "sphere": ", every row rescaled to norm sqrt(d) (pictures are drawn from the rescaled rows)",
}
NORMS = tuple(NORM_WORDS)

# Mean and standard deviation of each channel over a full training split.
ChannelStatistics = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class PictureFormat:
    """How a standardised vector is a picture: standardised = (pixel - mean) / std, with pixel in [0, 1].

    Args:
        shape: channels, height, width.
        mean: one number for all channels, or one per channel.
        std: likewise.
    """

    shape: tuple[int, int, int]
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or any(side < 1 for side in self.shape):
            raise InputError(f"picture shape {self.shape}; valid: (channels, height, width), each at least 1")
        for word, numbers in (("mean", self.mean), ("std", self.std)):
            if len(numbers) not in (1, self.shape[0]) or not all(math.isfinite(number) for number in numbers):
                raise InputError(f"picture {word} {numbers}; valid: 1 or {self.shape[0]} finite numbers")
        if any(number <= 0 for number in self.std):
            raise InputError(f"picture std {self.std}; valid: numbers above 0")

    def to_pictures(self, vectors: torch.Tensor) -> torch.Tensor:
        """Undoes the standardisation: (m, d) vectors to (m, C, H, W) pixels, clipped to [0, 1]."""
        size = math.prod(self.shape)
        if vectors.dim() != 2 or vectors.shape[1] != size:
            raise InputError(f"vectors of shape {tuple(vectors.shape)}; valid: (m, {size}) for pictures {self.shape}")
        pixels = vectors.reshape(-1, *self.shape)
        return (pixels * self._broadcast(self.std, pixels) + self._broadcast(self.mean, pixels)).clamp(0.0, 1.0)

    def to_vectors(self, pixels: torch.Tensor) -> torch.Tensor:
        """Standardises (m, C, H, W) pixels in [0, 1] to float32 vectors (m, d)."""
        if pixels.dim() != 4 or tuple(pixels.shape[1:]) != tuple(self.shape):
            raise InputError(f"pixels of shape {tuple(pixels.shape)}; valid: (m, {', '.join(map(str, self.shape))})")
        wide = pixels.to(torch.float64)
        standardised = (wide - self._broadcast(self.mean, wide)) / self._broadcast(self.std, wide)
        return standardised.flatten(start_dim=1).to(torch.float32)

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        return {"shape": list(self.shape), "mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PictureFormat:
        """Reads what `to_json` wrote."""
        try:
            channels, height, width = (int(side) for side in value["shape"])
            mean, std = (tuple(float(number) for number in value[word]) for word in ("mean", "std"))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{value!r} is no picture format; valid: an object with shape, mean and std") from error
        return cls((channels, height, width), mean, std)

    @staticmethod
    def _broadcast(numbers: tuple[float, ...], like: torch.Tensor) -> torch.Tensor:
        return torch.tensor(numbers, dtype=like.dtype, device=like.device).reshape(-1, 1, 1)


@dataclass(frozen=True)
class Dataset:
    """Training samples, their labels, and samples of the same source that were not trained on.

    Args:
        name: the registry's name.
        inputs: (n, d) float32.
        labels: (n,) real or +-1, or (n, k) one-hot.
        non_members: (m, d) float32, standardised with the statistics of `inputs`; m may be 0.
        picture: how rows are pictures, if they are.
        protocol: one sentence that says exactly how this was made.
        subspace: (r, d) orthonormal basis of the subspace that the distribution lives in, if it is known to.
        table: how rows are records of named columns, if they are.
    """

    name: str
    inputs: torch.Tensor
    labels: torch.Tensor
    non_members: torch.Tensor
    picture: PictureFormat | None
    protocol: str
    subspace: torch.Tensor | None = None
    table: TableFormat | None = None

    def __post_init__(self) -> None:
        if self.inputs.dim() != 2 or 0 in self.inputs.shape:
            raise InputError(f"inputs of shape {tuple(self.inputs.shape)}; valid: (n, d), n and d at least 1")
        rows, size = self.inputs.shape
        if self.labels.dim() not in (1, 2) or self.labels.shape[0] != rows or 0 in self.labels.shape:
            raise InputError(f"labels of shape {tuple(self.labels.shape)}; valid: ({rows},) or ({rows}, k)")
        if self.non_members.dim() != 2 or self.non_members.shape[1] != size:
            raise InputError(f"non_members of shape {tuple(self.non_members.shape)}; valid: (m, {size})")
        for word, tensor in (("inputs", self.inputs), ("non_members", self.non_members)):
            if tensor.dtype != torch.float32:
                raise InputError(f"{word} are {tensor.dtype}; valid: torch.float32")
        if not self.labels.is_floating_point():
            raise InputError(f"labels are {self.labels.dtype}; valid: a floating-point type")
        for word, tensor in (("inputs", self.inputs), ("labels", self.labels), ("non_members", self.non_members)):
            if not bool(torch.isfinite(tensor).all()):
                raise InputError(f"{word} hold NaN or infinite values; valid: finite numbers")
        if self.picture is not None and math.prod(self.picture.shape) != size:
            raise InputError(f"pictures {self.picture.shape} do not fill vectors of dimension {size}")
        if self.table is not None and len(self.table.columns) != size:
            raise InputError(
                f"{len(self.table.columns)} columns do not name the entries of vectors of dimension {size}"
            )

    @property
    def num_samples(self) -> int:
        """n, the number of training samples."""
        return int(self.inputs.shape[0])

    @property
    def input_dim(self) -> int:
        """d, the dimension of an input."""
        return int(self.inputs.shape[1])


def standardise(
    pixels: torch.Tensor, mode: str, channel_statistics: ChannelStatistics | None = None
) -> tuple[torch.Tensor, PictureFormat]:
    """Standardises (n, C, H, W) pixels in [0, 1] and returns the vectors (n, d) with the format that undoes it.

    Args:
        mode: "subset" takes one scalar mean and one scalar unbiased standard deviation over all values of `pixels`
            (Appendix D of the paper and its reference code); "channel" takes the given statistics of a full split;
            "none" keeps the pixels.
        channel_statistics: mean and std per channel; only "channel" reads them.
    """
    one_of("standardisation", mode, STANDARDISATIONS)
    if pixels.dim() != 4 or 0 in pixels.shape:
        raise InputError(f"pixels of shape {tuple(pixels.shape)}; valid: (n, C, H, W), no side empty")
    channels, height, width = pixels.shape[1:]
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    if mode == "subset":
        # float64, so that the mean of 300,000 values does not lose digits.
        wide = pixels.to(torch.float64)
        mean, std = (float(wide.mean()),), (float(wide.std(correction=1)) if wide.numel() > 1 else 0.0,)
        if not std[0] > 0:
            raise InputError("all selected values are equal: their standard deviation is 0; use standardisation 'none'")
    elif mode == "channel":
        if channel_statistics is None:
            raise InputError("no channel statistics of the full split are known here; valid: 'subset', 'none'")
        mean, std = channel_statistics
    picture = PictureFormat((channels, height, width), mean, std)
    return picture.to_vectors(pixels), picture


def rescale_rows(vectors: torch.Tensor, norm: str) -> torch.Tensor:
    """Puts every row of (n, d) on the sphere of radius sqrt(d) (Assumption 1) if `norm` is "sphere"."""
    if one_of("norm", norm, NORMS) == "keep":
        return vectors
    wide = vectors.to(torch.float64)
    lengths = wide.norm(dim=1, keepdim=True)
    if bool((lengths == 0).any()):
        row = int((lengths == 0).flatten().nonzero()[0])
        raise InputError(f"row {row} is zero and cannot be rescaled; use norm 'keep'")
    rescaled: torch.Tensor = wide * (math.sqrt(vectors.shape[1]) / lengths)
    return rescaled.to(vectors.dtype)
