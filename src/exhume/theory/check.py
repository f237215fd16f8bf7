"""A check of the theory: what it states, the table that was measured, the exponent fitted beside the predicted one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Cell = str | int | float | bool | None
Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Check:
    """One statement, and what was measured of it.

    Attributes:
        name: a few words.
        statement: what should be seen.
        columns: headings of the table.
        rows: the table.
        fitted: exponent by least squares in log-log; None if the statement has none, or none can be fitted.
        predicted: the exponent that the theory gives; None if the statement has none.
        tolerance: how far the fitted exponent may be from the predicted one; with no exponent predicted, how large
            a number may be that should be zero.
        passed: whether the statement holds here.
    """

    name: str
    statement: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    fitted: float | None
    predicted: float | None
    tolerance: float
    passed: bool

    def to_json(self) -> dict[str, Any]:
        """Every field, as plain JSON values."""
        return {**asdict(self), "columns": list(self.columns), "rows": [list(row) for row in self.rows]}


def fit_exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The b of values = c sizes^b, by least squares of logarithms; None if there are fewer than two or not all > 0."""
    if len(sizes) < 2 or not all(math.isfinite(value) and value > 0 for value in (*sizes, *values)):
        return None
    slope, _ = np.polyfit(np.log(sizes), np.log(values), 1)
    return float(slope)


def exponent_check(
    name: str,
    statement: str,
    columns: tuple[str, ...],
    rows: Sequence[Row],
    *,
    fit: tuple[Sequence[float], Sequence[float]],
    predicted: float,
    tolerance: float,
    also: bool = True,
) -> Check:
    """A check that passes if the exponent of fit = (sizes, values) is near the predicted one, and `also` is true."""
    fitted = fit_exponent(*fit)
    near = fitted is not None and abs(fitted - predicted) <= tolerance
    return Check(name, statement, columns, tuple(rows), fitted, predicted, tolerance, bool(near and also))
