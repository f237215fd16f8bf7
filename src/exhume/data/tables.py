"""Tables: how a standardised vector is a record of named columns in their original units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from exhume.errors import InputError


@dataclass(frozen=True)
class Column:
    """A column: standardised = (value - mean) / std, with the value in `unit`."""

    name: str
    unit: str = ""
    mean: float = 0.0
    std: float = 1.0


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
                Column(str(each["name"]), str(each["unit"]), float(each["mean"]), float(each["std"]))
                for each in value["columns"]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{value!r} is no table format; valid: an object with columns") from error
        return cls(columns)

    def _numbers(self, name: str) -> torch.Tensor:
        return torch.tensor([getattr(column, name) for column in self.columns], dtype=torch.float64)
