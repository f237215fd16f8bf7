"""How standardised vectors are pictures, or records of named columns in their original units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, cast

import torch

from exhume.errors import InputError
from exhume.support import serialise
from exhume.support.validation import one_of

PICTURE_STANDARDISATIONS = ("subset", "channel", "none")
TABLE_STANDARDISATIONS = ("subset", "full", "none")
NORMS = ("keep", "sphere")
# A float64 holds no more significant decimals than this.
MOST_DECIMALS = 15

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

    @classmethod
    def of_pixels(
        cls,
        shape: tuple[int, int, int],
        pixel_mean: float | Sequence[float] | None = None,
        pixel_std: float | Sequence[float] | None = None,
        pixel_range: tuple[float, float] | None = None,
    ) -> PictureFormat:
        """The format of pixels in `pixel_range`, by default 0 to 1, from which a mean and by which a std was taken."""
        low, high = (0.0, 1.0) if pixel_range is None else (float(bound) for bound in pixel_range)
        if not high > low:
            raise InputError(f"pixel_range {low:g} to {high:g} must rise")
        mean, std = _numbers(pixel_mean, 0.0), _numbers(pixel_std, 1.0)
        spread = high - low
        return cls(shape, tuple((each - low) / spread for each in mean), tuple(each / spread for each in std))

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
        return cast(dict[str, Any], serialise.dump(self)[1])

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PictureFormat:
        """Reads what `to_json` wrote."""
        return serialise.load(cls, {}, value)

    @staticmethod
    def _broadcast(numbers: tuple[float, ...], like: torch.Tensor) -> torch.Tensor:
        return torch.tensor(numbers, dtype=like.dtype, device=like.device).reshape(-1, 1, 1)


@dataclass(frozen=True)
class Column:
    """A column: standardised = (value - mean) / std, with the value in `unit`.

    `decimals` is how many digits after the point the original data have; None if that is unknown, or if there are more
    than a float32 vector carries.
    """

    name: str
    unit: str = ""
    mean: float = 0.0
    std: float = 1.0
    decimals: int | None = None

    @property
    def title(self) -> str:
        """The name with its unit, in printable characters only: "age (years)"."""
        title = f"{self.name} ({self.unit})" if self.unit else self.name
        return "".join(character if character.isprintable() else "?" for character in title)

    def text(self, value: float) -> str:
        """A value as the original data write it; with six significant digits if their decimals are unknown."""
        if self.decimals is None:
            return f"{value:.6g}"
        # Adding 0.0 turns the -0.0 that rounding leaves into 0.0.
        return f"{round(value, self.decimals) + 0.0:.{self.decimals}f}"


@dataclass(frozen=True)
class TableFormat:
    """How a standardised vector is a record; a column for each of its entries."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError("a table has no columns; valid: at least one")
        for column in self.columns:
            if not (math.isfinite(column.mean) and math.isfinite(column.std) and column.std > 0):
                raise InputError(
                    f"column {column.name!r} has mean {column.mean} and std {column.std}; valid: finite, std above 0"
                )
            if column.decimals is not None and not 0 <= column.decimals <= MOST_DECIMALS:
                raise InputError(
                    f"column {column.name!r} has {column.decimals} decimals; valid: 0 to {MOST_DECIMALS}, or none"
                )

    def to_records(self, vectors: torch.Tensor) -> torch.Tensor:
        """Undoes the standardisation: (m, d) vectors to (m, d) values in original units, float64."""
        self._check_width("vectors", vectors)
        return vectors.detach().cpu().double() * self._numbers("std") + self._numbers("mean")

    def to_vectors(self, records: torch.Tensor) -> torch.Tensor:
        """Standardises records (m, d) to float32 vectors (m, d)."""
        self._check_width("records", records)
        return ((records.double() - self._numbers("mean")) / self._numbers("std")).float()

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        return cast(dict[str, Any], serialise.dump(self)[1])

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableFormat:
        """Reads what `to_json` wrote."""
        return serialise.load(cls, {}, value)

    def _check_width(self, word: str, rows: torch.Tensor) -> None:
        if rows.dim() != 2 or rows.shape[1] != len(self.columns):
            raise InputError(f"{word} of shape {tuple(rows.shape)}; valid: (m, {len(self.columns)})")

    def _numbers(self, name: str) -> torch.Tensor:
        return torch.tensor([getattr(column, name) for column in self.columns], dtype=torch.float64)


def _numbers(value: float | Sequence[float] | None, default: float) -> tuple[float, ...]:
    """One number or several as a tuple."""
    if value is None:
        return (default,)
    return tuple(float(each) for each in value) if isinstance(value, Sequence) else (float(value),)


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
    one_of("standardisation", mode, PICTURE_STANDARDISATIONS)
    if pixels.dim() != 4 or 0 in pixels.shape:
        raise InputError(f"pixels of shape {tuple(pixels.shape)}; valid: (n, C, H, W), no side empty")
    statistics: ChannelStatistics | None = ((0.0,), (1.0,))
    if mode == "subset":
        mean, std = scalar_statistics(pixels)
        statistics = (mean,), (std,)
    elif mode == "channel":
        statistics = channel_statistics
    if statistics is None:
        raise InputError("no channel statistics of the full split are known here; valid: 'subset', 'none'")
    channels, height, width = pixels.shape[1:]
    picture = PictureFormat((channels, height, width), *statistics)
    return picture.to_vectors(pixels), picture


def scalar_statistics(values: torch.Tensor) -> tuple[float, float]:
    """The mean and the unbiased standard deviation of all values."""
    wide = values.to(torch.float64)
    std = float(wide.std(correction=1)) if wide.numel() > 1 else 0.0
    if not std > 0:
        raise InputError("all selected values are equal: their standard deviation is 0; use standardise 'none'")
    return float(wide.mean()), std


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


def with_statistics(columns: Sequence[Column], records: torch.Tensor | None) -> tuple[Column, ...]:
    """The columns with the mean and the standard deviation of the records (m, d); with 0 and 1 if there are none.

    The standard deviation divides by m. A constant column is centred and keeps the scale 1.
    """
    if records is None:
        return tuple(replace(column, mean=0.0, std=1.0) for column in columns)
    if len(records) < 2:
        raise InputError(f"{len(records)} record has no standard deviation; valid: two or more, or standardise 'none'")
    means, stds = records.mean(dim=0), records.std(dim=0, correction=0)
    # Rounding may leave a deviation of equal numbers, and shift their mean; the first of them is exact.
    constant = stds <= len(records) * torch.finfo(records.dtype).eps * means.abs()
    means, stds = torch.where(constant, records[0], means), torch.where(constant, 1.0, stds)
    statistics = zip(columns, means.tolist(), stds.tolist(), strict=True)
    return tuple(replace(column, mean=mean, std=std) for column, mean, std in statistics)


def standardised_column(values: torch.Tensor) -> torch.Tensor:
    """Numbers (n,) with mean 0 and standard deviation 1, as float32; equal numbers all become 0."""
    column = with_statistics((Column("label"),), values[:, None])
    return TableFormat(column).to_vectors(values[:, None]).flatten()


def with_decimals(table: TableFormat, records: torch.Tensor) -> TableFormat:
    """The table with as many decimals per column as its values (m, d) have, where float32 vectors carry them all."""
    carried = table.to_records(table.to_vectors(records))
    columns = []
    for column, values, kept in zip(table.columns, records.T.tolist(), carried.T.tolist(), strict=True):
        decimals = max(map(_decimals_of, values))
        rounded = replace(column, decimals=decimals if decimals <= MOST_DECIMALS else None)
        same = all(rounded.text(value) == rounded.text(other) for value, other in zip(values, kept, strict=True))
        columns.append(rounded if same else column)
    return TableFormat(tuple(columns))


def _decimals_of(value: float) -> int:
    """How many digits after the point the shortest text of a number has."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
