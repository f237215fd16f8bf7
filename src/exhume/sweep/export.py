"""A sweep as one flat table: a line a cell, a column for every setting and every number; CSV or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from exhume import files
from exhume.errors import InputError
from exhume.sweep.cell import Cell
from exhume.sweep.outcome import Outcome
from exhume.sweep.record import Record

Row = dict[str, Any]

_VERSIONS = ("exhume", "torch", "python")


def rows(records: Iterable[Record]) -> list[Row]:
    """The records, flat: `data.name`, `attack.method`, `outcome.error`; every row has the same columns."""
    found = [_row(record) for record in records]
    # The same settings stand together, in whichever row they are first met.
    settings = sorted({name for row in found for name in row["settings"]}, key=_place)
    return [
        {
            "key": row["key"],
            "state": row["state"],
            "error": row["error"],
            **{name: row["settings"].get(name) for name in settings},
            **row["numbers"],
        }
        for row in found
    ]


def write(path: Path, records: Iterable[Record]) -> int:
    """Writes the table in the format that the file's name ends with; returns the number of lines."""
    path = Path(path)
    if path.suffix not in FORMATS:
        raise InputError(f"{path} ends with {path.suffix or 'nothing'}; valid: {', '.join(FORMATS)}")
    table = rows(records)
    if not table:
        raise InputError(f"there is no cell to write to {path}")
    FORMATS[path.suffix](path, table)
    return len(table)


def flatten(config: Mapping[str, Any], prefix: str = "") -> Row:
    """{"data": {"dim": 3}} as {"data.dim": 3}; lists are words with commas between them."""
    flat: Row = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        elif isinstance(value, (list, tuple)):
            flat[f"{prefix}{name}"] = ",".join(map(str, value))
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _row(record: Record) -> Row:
    outcome = dict.fromkeys(Outcome.model_fields) if record.outcome is None else record.outcome.to_json()
    return {
        "key": record.cell.key,
        "state": record.state,
        "error": record.error,
        "settings": flatten(record.cell.to_json()),
        "numbers": {
            **{f"outcome.{name}": value for name, value in outcome.items()},
            "seconds": record.seconds,
            "worker": record.worker,
            **{f"version.{name}": record.versions.get(name) for name in _VERSIONS},
            "finished_at": None if record.finished_at is None else record.finished_at.isoformat(),
        },
    }


def _place(name: str) -> tuple[int, str]:
    return list(Cell.model_fields).index(name.partition(".")[0]), name


def _write_csv(path: Path, table: Sequence[Row]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    files.write_bytes(path, text.getvalue().encode())


def _write_parquet(path: Path, table: Sequence[Row]) -> None:
    # Imported when asked for: most runs write no Parquet.
    import pyarrow
    from pyarrow import parquet

    columns = {name: _column(name, [row[name] for row in table]) for name in table[0]}
    whole = pyarrow.table(columns)
    files.write_atomically(path, lambda temporary: parquet.write_table(whole, temporary))


def _column(name: str, values: Sequence[Any]) -> Any:
    """The values as a column of one type; words if they have several."""
    import pyarrow

    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return pyarrow.array([None if value is None else float(value) for value in values])
    if len(kinds) > 1:
        return pyarrow.array([None if value is None else str(value) for value in values])
    if not kinds:
        # A column of nothing has the type that it will have once there is something.
        return pyarrow.array(values, pyarrow.string() if name in _WORDS else pyarrow.float64())
    return pyarrow.array(values)


_WORDS = {"error", "worker", "finished_at", *(f"version.{name}" for name in _VERSIONS)} | {
    f"outcome.{name}" for name, field in Outcome.model_fields.items() if field.annotation is str
}
FORMATS: dict[str, Callable[[Path, Sequence[Row]], None]] = {".csv": _write_csv, ".parquet": _write_parquet}
