"""The user's own table: a CSV file with a header, one record a line; errors name the line and the column."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from exhume.data.classes import class_targets, describe_targets, random_signs
from exhume.data.dataset import Dataset, Selection, table_dataset
from exhume.data.formats import Column, standardised_column
from exhume.data.registry import user_data
from exhume.errors import DataError, InputError
from exhume.support.validation import one_of, whole_number

LABELS = ("auto", "given", "real", "sign", "one-hot")
# A column of more values than this holds numbers or names, not classes.
_MOST_CLASSES = 1000

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
# Far more than a table of training records needs; these keep a wrong file from filling the memory.
MOST_BYTES = 100_000_000
_MOST_COLUMNS = 10_000
_LONGEST_NAME = 200
_LONGEST_NUMBER = 100
_QUOTED_CELL = 40
_FLOAT32_MOST = 3.4028234e38
# Plain decimal numbers: float() alone would also take "1_000", "nan" and the digits of other scripts.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})


@user_data("table", "your own CSV file: one record a line, names and units in the header")
def load_table(
    path: str | Path,
    label: str | None = None,
    columns: str | Sequence[str] | None = None,
    samples: int | None = None,
    labels: str = "auto",
    standardise: str = "subset",
    delimiter: str | None = None,
    seed: int = 0,
) -> Dataset:
    """Reads complete records of numbers from a CSV file whose header is "name", "name (unit)" or "name [unit]".

    Args:
        path: the file, UTF-8, with commas, semicolons or tabs between cells.
        label: the column to learn; None draws random +-1 from `seed`.
        columns: the columns to learn from, as a list or with commas between them; None takes all but the label.
        samples: the first as many records are trained on and the next as many are the non-members; None trains on all.
        labels: "given" takes the numbers as they are, "real" standardises them, "sign" makes the smaller of two values
            -1 and the larger +1, "one-hot" has a column for each value, ascending; "auto" is "sign" for two values,
            else "real" for numbers and "one-hot" for texts.
        standardise: "subset" standardises each column over the trained records, "full" over all, "none" not at all.
        delimiter: "," or ";" or a tab; None looks at the header.
        seed: of random labels; nothing else uses it.
    """
    one_of("labels", labels, LABELS)
    table = read_table(Path(path).expanduser(), delimiter)
    available = len(table.records)
    count = available if samples is None else whole_number("samples", samples)
    if not 1 <= count <= available:
        raise InputError(f"samples: wanted {count}, available {available} records in {table.file}")
    label_at = None if label is None else table.position(label)
    chosen = _chosen(table, columns, label_at)
    records = torch.tensor([table.numbers(index) for index in chosen], dtype=torch.float64).T.contiguous()  # (m, d)
    targets, words = _targets(table, label_at, labels, count, seed)
    others = slice(count, None if samples is None else 2 * count)
    protocol = f"The first {count} of {available} records of {table.file.name} ({DELIMITERS[table.delimiter]}), {words}"
    chosen_columns = [table.columns[index] for index in chosen]
    selection = Selection("table", records[:count], records[others], targets, protocol)
    return table_dataset(selection, chosen_columns, standardise, records)


def _chosen(table: Table, columns: str | Sequence[str] | None, label_at: int | None) -> list[int]:
    """The positions of the columns to learn from, in the given order."""
    if columns is None:
        chosen = [index for index in range(len(table.columns)) if index != label_at]
    else:
        names = columns.split(",") if isinstance(columns, str) else columns
        chosen = [table.position(str(name).strip()) for name in names]
    if not chosen:
        raise InputError(f"no columns of {table.file} are left to learn from; valid: at least one beside the label")
    if label_at in chosen:
        raise InputError(f"column {table.columns[label_at].name!r} is the label; valid: columns without it")
    if len(set(chosen)) < len(chosen):
        raise InputError(f"columns {columns!r} name a column twice; valid: each column once")
    return chosen


def _targets(table: Table, label_at: int | None, labels: str, count: int, seed: int) -> tuple[torch.Tensor, str]:
    """The labels of the first `count` records, and the protocol's words for them."""
    if label_at is None:
        if labels != "auto":
            raise InputError(f"labels {labels!r} need a label column; valid: the option label, or labels 'auto'")
        return random_signs(count, seed), f"random labels +-1 from seed {seed} (no label column)"
    name, texts = table.columns[label_at].name, table.texts(label_at)[:count]
    values: list[Any] = texts
    try:
        values = table.numbers(label_at)[:count]
    except DataError:
        if labels in ("given", "real"):
            raise
    classes = sorted(set(values))
    kind = labels
    if labels == "auto":
        kind = "sign" if len(classes) == 2 else "one-hot" if values is texts else "real"
    if kind == "given":
        return torch.tensor(values, dtype=torch.float32), f"labels the column {name!r} as it is"
    if kind == "real":
        numbers = torch.tensor(values, dtype=torch.float64)
        return standardised_column(numbers), f"labels the standardised column {name!r}"
    if len(classes) > _MOST_CLASSES:
        raise InputError(f"column {name!r} has {len(classes)} values; valid: at most {_MOST_CLASSES} classes")
    positions = [classes.index(value) for value in values]
    targets = class_targets(positions, kind, range(len(classes)))
    return targets, f"{describe_targets(targets, [f'{value}' for value in classes])} of the column {name!r}"


@dataclass(frozen=True)
class Table:
    """The text of a table.

    Attributes:
        file: where it was read.
        columns: names and units of the header.
        records: for each, the line of the file at which it ends, and a text for each column without spaces around it.
        delimiter: the character between cells.
    """

    file: Path
    columns: tuple[Column, ...]
    records: tuple[tuple[int, tuple[str, ...]], ...]
    delimiter: str

    def position(self, name: str) -> int:
        """Where the column of that name is; with or without its unit."""
        for index, column in enumerate(self.columns):
            if name in (column.name, f"{column.name} ({column.unit})", f"{column.name} [{column.unit}]"):
                return index
        valid = ", ".join(repr(column.name) for column in self.columns[:20])
        raise InputError(f"{self.file} has no column {_short(name)}; valid: {valid}")

    def texts(self, index: int) -> list[str]:
        """The cells of a column; none may be missing."""
        for line, cells in self.records:
            if cells[index].lower() in _MISSING:
                raise self._error(line, index, cells[index], "is missing; fill the cell or drop the record")
        return [cells[index] for _, cells in self.records]

    def numbers(self, index: int) -> list[float]:
        """The cells of a column as numbers; a text or a missing cell is an error."""
        values = []
        for (line, _), cell in zip(self.records, self.texts(index), strict=True):
            if len(cell) > _LONGEST_NUMBER or not _NUMBER.fullmatch(cell):
                advice = "is no number; write 1234.5, or encode texts as numbers, or leave the column out of `columns`"
                raise self._error(line, index, cell, advice)
            value = float(cell)
            if not abs(value) <= _FLOAT32_MOST:
                raise self._error(line, index, cell, f"is beyond float32; valid: up to {_FLOAT32_MOST:.2g}")
            values.append(value)
        return values

    def _error(self, line: int, index: int, cell: str, advice: str) -> DataError:
        return DataError(f"{self.file}, line {line}, column {self.columns[index].name!r}: {_short(cell)} {advice}")


def read_table(file: Path, delimiter: str | None = None) -> Table:
    """Reads a CSV file in UTF-8 whose first record names the columns, as "name", "name (unit)" or "name [unit]".

    Args:
        file: of any name; quotes, CRLF and a byte-order mark are read as spreadsheets write them.
        delimiter: between cells; None takes the one of comma, semicolon and tab that splits the header most.
    """
    if delimiter is not None and delimiter not in DELIMITERS:
        raise InputError(f"delimiter is {delimiter!r}; valid: {', '.join(map(repr, DELIMITERS))}, or none to look")
    records: list[tuple[int, tuple[str, ...]]] = []
    try:
        size = file.stat().st_size
        if size > MOST_BYTES:
            raise DataError(f"{file} has {size:,} bytes; valid: at most {MOST_BYTES:,}")
        with file.open(encoding="utf-8-sig", newline="") as lines:
            chosen = delimiter or _delimiter_of(next((line for line in lines if line.strip()), ""))
            lines.seek(0)
            reader = csv.reader(lines, delimiter=chosen, strict=True)
            for record in reader:
                if any(cell.strip() for cell in record):
                    records.append((reader.line_num, tuple(cell.strip() for cell in record)))
    except FileNotFoundError as error:
        raise DataError(f"{file} does not exist; give `path` a CSV file with a header") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not text in UTF-8 ({error.reason} at byte {error.start}); save it as such"
        ) from error
    except csv.Error as error:
        line = records[-1][0] + 1 if records else 1
        raise DataError(f"{file}, line {line}: not readable as CSV ({error})") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error}") from error
    if not records:
        raise DataError(f"{file} is empty; valid: a header line and a line for each record")
    columns = _header(file, records[0][1])
    for line, cells in records[1:]:
        if len(cells) != len(columns):
            raise DataError(f"{file}, line {line}: {len(cells)} cells; valid: {len(columns)}, as the header has")
    return Table(file, columns, tuple(records[1:]), chosen)


def _delimiter_of(header: str) -> str:
    """The delimiter that makes most cells of the header; the comma if several do."""
    return max(DELIMITERS, key=lambda delimiter: len(next(csv.reader([header], delimiter=delimiter), [])))


def _header(file: Path, cells: Sequence[str]) -> tuple[Column, ...]:
    if len(cells) > _MOST_COLUMNS:
        raise DataError(f"{file} has {len(cells):,} columns; valid: at most {_MOST_COLUMNS:,}")
    for place, cell in enumerate(cells, start=1):
        if not cell or len(cell) > _LONGEST_NAME or not cell.isprintable():
            valid = f"valid: 1 to {_LONGEST_NAME} printable characters"
            raise DataError(f"{file}: the name of column {place} is {_short(cell)}; {valid}")
    if all(_NUMBER.fullmatch(cell) for cell in cells):
        raise DataError(f"{file} has no header: its first line holds numbers only; write the columns' names above them")
    columns = tuple(_named(cell) for cell in cells)
    names = [column.name for column in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{file} has two columns {twice!r}; valid: a name of its own for each")
    return columns


def _named(cell: str) -> Column:
    """A column from "name", "name (unit)" or "name [unit]"."""
    for opening, closing in ("()", "[]"):
        name, found, unit = cell.rpartition(opening)
        if found and name.strip() and cell.endswith(closing) and unit[:-1].strip():
            return Column(name.strip(), unit[:-1].strip())
    return Column(cell)


def _short(text: str) -> str:
    """A text in quotes, shortened and with its control characters escaped."""
    return repr(text if len(text) <= _QUOTED_CELL else f"{text[:_QUOTED_CELL]}...")
