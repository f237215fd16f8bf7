"""A sweep as a table: one row per cell with every setting and number, as CSV or Parquet, and means over seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, get_args

from exhume.errors import InputError
from exhume.support import files
from exhume.support.extras import load_extra
from exhume.sweep.cell import Cell
from exhume.sweep.experiment import Outcome
from exhume.sweep.store import Record

if TYPE_CHECKING:
    import pandas as pd

_VERSIONS = ("exhume", "torch", "python")
# Settings that a summary always shows; others only if they differ between the cells.
_ALWAYS_SHOWN = ("data.name", "victim.kind", "features", "ratio", "attack.method")
# Column types in which a missing value is not a number.
_TYPES = {bool: "boolean", int: "Int64", float: "Float64", str: "string[python]"}


def frame(records: Iterable[Record]) -> pd.DataFrame:
    """One row per cell: key, state, error, settings such as `data.name`, numbers such as `outcome.error`."""
    pandas = load_extra("sweep", "pandas")
    found = list(records)
    settings = [flatten(record.cell.to_json()) for record in found]
    # Settings of one part of the cell are neighbours, whichever row has them first.
    names = sorted({name for each in settings for name in each}, key=_position)
    columns = {"key": _text([record.cell.key for record in found])}
    columns |= {name: _text([getattr(record, name) for record in found]) for name in ("state", "error")}
    columns |= {name: _inferred([each.get(name) for each in settings]) for name in names}
    for name, field in Outcome.model_fields.items():
        values = [None if record.outcome is None else getattr(record.outcome, name) for record in found]
        columns[f"outcome.{name}"] = _column(values, _dtype(field.annotation))
    columns["seconds"] = _column([record.seconds for record in found], _TYPES[float])
    columns["worker"] = _text([record.worker for record in found])
    columns |= {f"version.{name}": _text([record.versions.get(name) for record in found]) for name in _VERSIONS}
    dates = [record.finished_at.isoformat() if record.finished_at else None for record in found]
    columns["finished_at"] = _text(dates)
    table: pd.DataFrame = pandas.DataFrame(columns)
    return table


def write(path: Path, records: Iterable[Record]) -> int:
    """Writes the table in the format of the file's suffix; returns the number of rows."""
    path = Path(path)
    if path.suffix not in FORMATS:
        raise InputError(f"{path} ends with {path.suffix or 'nothing'}; valid: {', '.join(FORMATS)}")
    table = frame(records)
    if table.empty:
        raise InputError(f"there is no cell to write to {path}")
    files.write_atomically(path, lambda temporary: FORMATS[path.suffix](table, temporary))
    return len(table)


def _write_csv(table: pd.DataFrame, path: Path) -> None:
    table.to_csv(path, index=False, lineterminator="\n")


def _write_parquet(table: pd.DataFrame, path: Path) -> None:
    load_extra("sweep", "pyarrow")
    table.to_parquet(path, index=False)


FORMATS: dict[str, Callable[[pd.DataFrame, Path], None]] = {".csv": _write_csv, ".parquet": _write_parquet}


@dataclass(frozen=True)
class Line:
    """Means over the cells that differ only in their seed.

    Attributes:
        settings: those that distinguish these cells from others of the sweep.
        cells, done, failed: how many.
        error: mean of the claimed error: signed where the attack claims the signs, else up to sign.
        recovered: mean share of recovered samples, up to sign likewise.
        seconds: mean computing time of a cell.
    """

    settings: dict[str, Any]
    cells: int
    done: int
    failed: int
    error: float | None
    recovered: float | None
    seconds: float | None

    def to_json(self) -> dict[str, Any]:
        """The line as plain JSON."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in vars(self).items()
        }


def summarise(records: Sequence[Record]) -> list[Line]:
    """One line per configuration without its seed, in the order of the sweep."""
    configs = [flatten({k: v for k, v in record.cell.to_json().items() if k != "seed"}) for record in records]
    names = distinguishing(configs)
    groups: dict[str, list[Record]] = {}
    for config, record in zip(configs, records, strict=True):
        groups.setdefault(json.dumps(config, sort_keys=True), []).append(record)
    return [_line({name: json.loads(key).get(name) for name in names}, group) for key, group in groups.items()]


def _line(settings: dict[str, Any], group: Sequence[Record]) -> Line:
    done = [record for record in group if record.state == "done"]
    outcomes = [record.outcome for record in done if record.outcome is not None]
    return Line(
        settings=settings,
        cells=len(group),
        done=len(done),
        failed=sum(record.state == "failed" for record in group),
        error=_mean(outcome.claimed_error for outcome in outcomes),
        recovered=_mean(outcome.claimed_recovered / outcome.num_samples for outcome in outcomes),
        seconds=_mean(record.seconds for record in done if record.outcome is not None),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of the numbers among the values; None if there is none."""
    numbers = [value for value in values if value is not None and not math.isnan(value)]
    return fmean(numbers) if numbers else None


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"data": {"dim": 3}} as {"data.dim": 3}; lists become text with commas."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        elif isinstance(value, (list, tuple)):
            flat[f"{prefix}{name}"] = ",".join(map(str, value))
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def distinguishing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that a summary shows: the usual ones, and those that differ between configurations."""
    usual = [name for name in _ALWAYS_SHOWN if any(name in config for config in configs)]
    return usual + [name for name in differing_settings(configs) if name not in _ALWAYS_SHOWN]


def differing_settings(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that differ between configurations."""
    names = dict.fromkeys(name for config in configs for name in config)
    return [name for name in names if len({json.dumps(config.get(name)) for config in configs}) > 1]


def _position(name: str) -> tuple[int, str]:
    return list(Cell.model_fields).index(name.partition(".")[0]), name


def _column(values: Sequence[Any], dtype: str) -> pd.Series[Any]:
    column: pd.Series[Any] = load_extra("sweep", "pandas").Series(values, dtype=dtype)
    return column


def _text(values: Sequence[str | None]) -> pd.Series[Any]:
    return _column(values, _TYPES[str])


def _dtype(annotation: Any) -> str:
    return next(_TYPES[each] for each in (*get_args(annotation), annotation) if each in _TYPES)


def _inferred(values: Sequence[Any]) -> pd.Series[Any]:
    """A column of the one type that its values have; of text if they have several."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        kinds = {float}
    kind = kinds.pop() if len(kinds) == 1 else str
    return _column([None if value is None else kind(value) for value in values], _TYPES[kind])
