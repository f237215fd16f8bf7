"""Compares recovered rows with those that were passed to `fit`, in their own units."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exhume.data import Column, Dataset, TableFormat
from exhume.data.formats import with_decimals
from exhume.data.user.csv import read_table
from exhume.errors import DataError, InputError
from exhume.estimators.findings import FitColumn
from exhume.estimators.undo import Values
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import Score, score_samples
from exhume.support import files

# Pairs of true and recovered rows that are compared; of larger tables the first true rows are.
_MOST_PAIRS = 4_000_000


@dataclass(frozen=True)
class Compared:
    """The score, the true rows as a data set, the columns with all categories of both, and notes."""

    score: Score
    dataset: Dataset
    columns: tuple[FitColumn, ...]
    notes: tuple[str, ...] = ()


def read_rows(path: Path, names: list[str]) -> Values:
    """Rows from a .csv with a header, by the names of its columns where they are known, or from a .npy file."""
    path = Path(path)
    if path.suffix.lower() == ".npy":
        return files.read_npy(path).numpy()
    if path.suffix.lower() != ".csv":
        raise InputError(f"{path}: rows of an estimator are read from .csv or .npy")
    table = read_table(path.expanduser())
    header = [column.name for column in table.columns]
    titles = [column.title for column in table.columns]
    if all(name in header or name in titles for name in names):
        chosen = [header.index(name) if name in header else titles.index(name) for name in names]
    elif len(header) == len(names):
        chosen = list(range(len(names)))
    else:
        missing = [name for name in names if name not in header]
        raise DataError(
            f"{path} has {len(header)} columns, the estimator was fitted on {len(names)}; not in the header: "
            f"{', '.join(missing[:5])}"
        )
    return np.array([_column(table, place) for place in chosen], dtype=object).T


def _column(table: Any, place: int) -> list[Any]:
    """Numbers if all cells are, NaN for empty ones, else texts."""
    cells = [record[place] for _, record in table.records]
    try:
        return [float(cell) if cell else math.nan for cell in cells]
    except ValueError:
        return cells


def as_rows(word: str, values: Any, names: list[str]) -> Values:
    """Rows (n, d) of an array or a data frame, whose columns are put into the order of `fit`."""
    given = getattr(values, "columns", None)
    if given is not None and set(names) <= set(map(str, given)):
        values = values.set_axis([str(each) for each in given], axis=1)[names]
    rows = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
    if rows.ndim != 2 or rows.shape[1] != len(names) or not len(rows):
        raise InputError(f"{word} of shape {rows.shape}; valid: (n, {len(names)}), the rows that were passed to fit")
    return rows


def compare(
    result: Reconstruction, columns: tuple[FitColumn, ...], truth: Values, held_out: Values | None = None
) -> Compared:
    """Scores recovered rows against the true ones, every column divided by its standard deviation in the truth.

    Args:
        result: rows in the units of `fit`.
        columns: its columns.
        truth: (n, d) the same columns of what was passed to `fit`.
        held_out: (m, d) rows of the same kind that were not.
    """
    extended, notes = _with_categories(columns, truth), []
    true_rows = _numbers(truth, extended)
    others = None if held_out is None else _numbers(held_out, _with_categories(extended, held_out))
    rows, samples = true_rows, result.samples.detach().double()
    most = max(1, _MOST_PAIRS // len(samples))
    if len(rows) > most:
        notes.append(f"Of {len(rows):,} true rows the first {most:,} were compared.")
        rows = rows[:most]
    centre, scale = _scale(rows)
    non_members = None if others is None else (others - centre) / scale
    score = score_samples((samples - centre) / scale, (rows - centre) / scale, non_members=non_members)
    table = TableFormat(tuple(Column(column.name) for column in extended))
    dataset = Dataset(
        "own",
        rows,
        torch.empty(0),
        rows[:0] if others is None else others,
        None,
        "The rows that were passed to fit, in their own units; categories as numbers.",
        table=with_decimals(table, rows),
    )
    if bool(np.array([_is_missing(each) for each in truth.ravel()]).any()):
        notes.append("Missing values are compared and shown as the mean of their column.")
    return Compared(score, dataset, extended, tuple(notes))


def _scale(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What is taken from every column, and by what it is divided, so that columns count alike."""
    centre, spread = rows.mean(0), rows.std(0, correction=0)
    size = rows.abs().amax(0)
    scale = torch.where(spread > 1e-12 * size, spread, torch.where(size > 0, size, 1.0))
    if bool(((rows - centre).abs() <= 1e-12 * size).all(1).any()):  # a row at the mean would have no norm
        centre = centre - scale
    return centre, scale


def _with_categories(columns: tuple[FitColumn, ...], rows: Values) -> tuple[FitColumn, ...]:
    """The columns, with categories that occur in these rows only behind the others."""
    extended = []
    for column, values in zip(columns, rows.T, strict=True):
        if column.categories:
            new = sorted({str(each) for each in values} - set(column.categories))
            column = replace(column, categories=(*column.categories, *new))
        extended.append(column)
    return tuple(extended)


def _numbers(rows: Values, columns: tuple[FitColumn, ...]) -> torch.Tensor:
    """Rows as numbers, categories by their places; missing values become the mean of their column."""
    numbers = []
    for column, values in zip(columns, rows.T, strict=True):
        if column.categories:
            numbers.append(np.array([column.categories.index(str(each)) for each in values], dtype=np.float64))
            continue
        try:
            numeric = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"truth: column {column.name} holds texts; the estimator read numbers there") from error
        finite = np.isfinite(numeric)
        numbers.append(np.where(finite, numeric, numeric[finite].mean() if finite.any() else 0.0))
    return torch.from_numpy(np.stack(numbers, 1))


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float | np.floating) and not np.isfinite(value))
