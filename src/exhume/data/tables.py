"""Tables: how a standardised vector is a record of named columns in their original units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from exhume.errors import InputError

# Beyond these a float64 has no more digits to give.
MOST_DECIMALS = 15


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
        if vectors.dim() != 2 or vectors.shape[1] != len(self.columns):
            raise InputError(f"vectors of shape {tuple(vectors.shape)}; valid: (m, {len(self.columns)})")
        return vectors.detach().cpu().double() * self._numbers("std") + self._numbers("mean")

    def to_vectors(self, records: torch.Tensor) -> torch.Tensor:
        """Standardises records (m, d) to float32 vectors (m, d)."""
        if records.dim() != 2 or records.shape[1] != len(self.columns):
            raise InputError(f"records of shape {tuple(records.shape)}; valid: (m, {len(self.columns)})")
        return ((records.double() - self._numbers("mean")) / self._numbers("std")).float()

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        return {"columns": [vars(column) for column in self.columns]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableFormat:
        """Reads what `to_json` wrote."""
        try:
            columns = tuple(
                Column(
                    str(each["name"]), str(each["unit"]), float(each["mean"]), float(each["std"]), each.get("decimals")
                )
                for each in value["columns"]
            )
            if any(type(column.decimals) not in (int, type(None)) for column in columns):
                raise TypeError("decimals are whole numbers or null")
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{value!r} is no table format; valid: an object with columns") from error
        return cls(columns)

    def _numbers(self, name: str) -> torch.Tensor:
        return torch.tensor([getattr(column, name) for column in self.columns], dtype=torch.float64)
