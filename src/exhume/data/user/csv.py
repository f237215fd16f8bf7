"""Reading a table: a CSV file with a header, every complaint with the line and the column it is about."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from exhume.data.tables import Column
from exhume.errors import DataError, InputError

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
# A table that a model can be asked for is small; these only keep a slip from filling the memory.
MOST_BYTES = 100_000_000
_MOST_COLUMNS = 10_000
_LONGEST_NAME = 200
_LONGEST_NUMBER = 100
_QUOTED_CELL = 40
_FLOAT32_MOST = 3.4028234e38
# Plain decimal numbers: float() alone would also take "1_000", "nan" and the digits of other scripts.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})


@dataclass(frozen=True)
class Table:
    """The text of a table.

    Attributes:
        file: where it was read.
        columns: names and units of the header.
        lines: for each record, the line of the file at which it ends.
        cells: for each record, a text for each column, without surrounding spaces.
        delimiter: the character between cells.
    """

    file: Path
    columns: tuple[Column, ...]
    lines: tuple[int, ...]
    cells: tuple[tuple[str, ...], ...]
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
        for line, record in zip(self.lines, self.cells, strict=True):
            if record[index].lower() in _MISSING:
                raise self._error(line, index, record[index], "is missing; fill the cell or drop the record")
        return [record[index] for record in self.cells]

    def numbers(self, index: int) -> list[float]:
        """The cells of a column as numbers; a text or a missing cell is an error."""
        values = []
        for line, cell in zip(self.lines, self.texts(index), strict=True):
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
    try:
        size = file.stat().st_size
        if size > MOST_BYTES:
            raise DataError(f"{file} has {size:,} bytes; valid: at most {MOST_BYTES:,}")
        with file.open(encoding="utf-8-sig", newline="") as lines:
            chosen = delimiter or _delimiter_of(next((line for line in lines if line.strip()), ""))
            lines.seek(0)
            records = list(_records(file, csv.reader(lines, delimiter=chosen, strict=True)))
    except FileNotFoundError as error:
        raise DataError(f"{file} does not exist; give `path` a CSV file with a header") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not text in UTF-8 ({error.reason} at byte {error.start}); save it as such"
        ) from error
    except csv.Error as error:  # in the header, where the delimiter is looked for
        raise DataError(f"{file}, line 1: not readable as CSV ({error})") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error}") from error
    if not records:
        raise DataError(f"{file} is empty; valid: a header line and a line for each record")
    columns = _header(file, records[0][1])
    _check_widths(file, columns, records[1:])
    lines_at, cells = zip(*records[1:], strict=True) if len(records) > 1 else ((), ())
    return Table(file, columns, lines_at, cells, chosen)


def _records(file: Path, reader: Iterator[list[str]]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The records that are not blank, each with the line at which it ends."""
    try:
        for record in reader:
            if any(cell.strip() for cell in record):
                yield reader.line_num, tuple(cell.strip() for cell in record)  # type: ignore[attr-defined]
    except csv.Error as error:
        line = reader.line_num  # type: ignore[attr-defined]
        raise DataError(f"{file}, line {line}: not readable as CSV ({error})") from error


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


def _check_widths(file: Path, columns: Sequence[Column], records: Sequence[tuple[int, tuple[str, ...]]]) -> None:
    for line, cells in records:
        if len(cells) != len(columns):
            raise DataError(f"{file}, line {line}: {len(cells)} cells; valid: {len(columns)}, as the header has")


def _short(text: str) -> str:
    """A text in quotes, shortened and with its control characters escaped."""
    return repr(text if len(text) <= _QUOTED_CELL else f"{text[:_QUOTED_CELL]}...")
