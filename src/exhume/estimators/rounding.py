"""Whole numbers and decimals: columns of recovered rows are rounded where error bars show that they lie on a grid.

A column of ages holds whole numbers. If every recovered value is a whole number up to its error bar, and the bars are
so short that chance does not explain it, the true values are these numbers, and rounding makes the rows exact.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from exhume.estimators.undo import Rows
from exhume.support.text import plural

# Decimals that are tried, fewest first.
_DECIMALS = range(7)
# Values with an error bar below this share of the grid's spacing count; fewer than these many show nothing.
_SHORT, _FEWEST = 0.05, 3
# Chance (its logarithm) with which values that are not on a grid may lie within their bars of it.
_CHANCE = math.log(1e-9)


def rounded(rows: Rows, bars: NDArray[np.float64], names: Sequence[str]) -> Rows:
    """The rows with their columns rounded where that is certain, and a note that names these columns.

    Args:
        rows: (m, d), in the units of `fit`.
        bars: (m, d), how far each value may be off.
        names: of the columns.
    """
    values, by_decimals = rows.values.copy(), dict[int, list[str]]()
    for place, name in enumerate(names):
        if not rows.known[place]:
            continue
        try:
            column = rows.values[:, place].astype(np.float64)
        except (TypeError, ValueError):  # categories
            continue
        decimals = decimals_of(column, bars[:, place])
        if decimals is not None:
            near = bars[:, place] < 0.25 * 10.0**-decimals
            values[near, place] = np.round(column[near], decimals)
            by_decimals.setdefault(decimals, []).append(name)
    if not by_decimals:
        return rows
    parts = [
        f"to {plural(decimals, 'decimal') if decimals else 'whole numbers'}: {', '.join(columns)}"
        for decimals, columns in sorted(by_decimals.items())
    ]
    note = f"Rounded, because every value lies within its error bar of such a number: {'; '.join(parts)}."
    return replace(rows, values=values, notes=(*rows.notes, note))


def decimals_of(column: NDArray[np.float64], bars: NDArray[np.float64]) -> int | None:
    """How many decimals the values of a column have, if their error bars leave no doubt; else None.

    >>> decimals_of(np.array([3.0000001, 7.0, 11.9999999]), np.full(3, 1e-6))
    0
    >>> decimals_of(np.array([3.1, 7.0, 11.5]), np.full(3, 0.3)) is None
    True
    """
    for decimals in _DECIMALS:
        spacing = 10.0**-decimals
        short = np.isfinite(column) & (bars < _SHORT * spacing)
        if short.sum() < _FEWEST:
            return None
        off, bar = np.abs(column - np.round(column, decimals))[short], bars[short]
        if (off <= bar).all() and float(np.log(np.maximum(2 * bar / spacing, 1e-300)).sum()) < _CHANCE:
            return decimals
    return None


def bars_in_units(
    undo: Callable[[Rows], Rows], samples: NDArray[np.float64], errors: Sequence[float]
) -> NDArray[np.float64]:
    """How far each value of restored rows may be off, in their own units, (m, d); infinite for categories.

    A relative error e of a row x moves each of its values by e |x| at most. Every column is moved by that alone, the
    steps before are undone, and the changes are added: a bound to first order, also where columns are mixed (PCA).

    Args:
        undo: brings rows back to their units.
        samples: (m, d), as they reach the step that was attacked.
        errors: (m,), relative, of whole rows.
    """
    shift = np.asarray(errors) * np.linalg.norm(samples, axis=1)
    centre = _numbers(undo(Rows.of(samples)))
    bars = 4 * np.finfo(np.float64).eps * np.abs(centre)
    for column in range(samples.shape[1]):
        moved = samples.copy()
        moved[:, column] += shift
        bars += np.abs(_numbers(undo(Rows.of(moved))) - centre)
    return np.where(np.isfinite(bars), bars, math.inf)


def _numbers(rows: Rows) -> NDArray[np.float64]:
    """The numbers of rows; NaN for categories and what is not known."""
    numbers = np.full(rows.values.shape, math.nan)
    for place in np.flatnonzero(rows.known):
        with contextlib.suppress(TypeError, ValueError):
            numbers[:, place] = rows.values[:, place].astype(np.float64)
    return numbers
