"""A sweep in a small table: what differs between its cells, and the means over seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from exhume.sweep.export import flatten
from exhume.sweep.record import Record

# Settings that are always shown; others only if they differ between the cells.
_ALWAYS = ("data.name", "victim.kind", "features", "ratio", "attack.method")


@dataclass(frozen=True)
class Line:
    """Cells that differ in their seed alone.

    Attributes:
        settings: what tells them from the other cells of the sweep.
        cells, done, failed: how many.
        error: the mean of the claimed error: up to sign where the attack does not claim its signs.
        recovered: mean share of the samples that were recovered, up to sign likewise.
        seconds: mean of a cell.
    """

    settings: dict[str, Any]
    cells: int
    done: int
    failed: int
    error: float | None
    recovered: float | None
    seconds: float | None

    def to_json(self) -> dict[str, Any]:
        """The line, as plain JSON."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in vars(self).items()
        }


def summarise(records: Sequence[Record]) -> list[Line]:
    """A line for each configuration but the seed, in the order of the sweep."""
    groups: dict[str, list[Record]] = {}
    settings: dict[str, dict[str, Any]] = {}
    for record in records:
        config = flatten({name: value for name, value in record.cell.to_json().items() if name != "seed"})
        name = json.dumps(config, sort_keys=True)
        settings[name] = config
        groups.setdefault(name, []).append(record)
    columns = _telling(list(settings.values()))
    return [_line({name: settings[group].get(name) for name in columns}, groups[group]) for group in groups]


def _telling(configs: Sequence[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for config in configs for name in config)
    differing = [name for name in names if len({json.dumps(config.get(name)) for config in configs}) > 1]
    return [name for name in _ALWAYS if name in names] + [name for name in differing if name not in _ALWAYS]


def _line(settings: dict[str, Any], records: Sequence[Record]) -> Line:
    outcomes = [record.outcome for record in records if record.outcome is not None]
    shares = [
        (outcome.recovered if outcome.signs_determined else outcome.recovered_up_to_sign) / outcome.num_samples
        for outcome in outcomes
    ]
    times = [record.seconds for record in records if record.outcome is not None and record.seconds is not None]
    return Line(
        settings=settings,
        cells=len(records),
        done=len(outcomes),
        failed=sum(record.state == "failed" for record in records),
        error=fmean(outcome.claimed_error for outcome in outcomes) if outcomes else None,
        recovered=fmean(shares) if shares else None,
        seconds=fmean(times) if times else None,
    )
