"""Statistics over seeds: records in groups, and in each group mean and standard deviation against an x value."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, TypeVar

from exhume.sweep.outcome import Outcome

if TYPE_CHECKING:
    from exhume.sweep.record import Record

# What counts as recovered: the error that an attack answers for, relative to the norm of the samples.
RECOVERED = 1e-3
_NORMAL_QUANTILE = 1.96  # of a two-sided interval of 95 %

Key = TypeVar("Key")
Number = Callable[["Record"], float | None]


@dataclass(frozen=True)
class Series:
    """One line of a plot: for each x the mean, the standard deviation and the number of seeds.

    Attributes:
        std: of the sample (n - 1); 0 where there is one seed.
    """

    x: tuple[float, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    count: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]


def done(records: Iterable[Record]) -> list[Record]:
    """The records with an outcome."""
    return [record for record in records if record.state == "done" and record.outcome is not None]


def outcome_of(record: Record) -> Outcome:
    """The outcome of a record that has one."""
    assert record.outcome is not None
    return record.outcome


def method_of(record: Record) -> str:
    """The attack's name."""
    return record.cell.attack.method


def grouped(records: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    """Records by a key, in the order in which the keys appear."""
    groups: defaultdict[Key, list[Record]] = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return dict(groups)


def of_method(records: Iterable[Record], *methods: str) -> list[Record]:
    """The records of some attacks."""
    return [record for record in records if method_of(record) in methods]


def num_parameters(record: Record) -> float | None:
    """p: the weights of the last layer."""
    return outcome_of(record).num_parameters


def claimed_error(record: Record) -> float | None:
    """The error that the attack answers for."""
    return outcome_of(record).claimed_error


def series(records: Iterable[Record], x: Number, y: Number) -> Series:
    """Mean and standard deviation of y over the done records of each x; values that are not finite are left out."""
    found: defaultdict[float, list[float]] = defaultdict(list)
    for record in done(records):
        place, value = x(record), y(record)
        if place is not None and value is not None and math.isfinite(value):
            found[place].append(value)
    places = sorted(found)
    values = tuple(tuple(found[place]) for place in places)
    return Series(
        x=tuple(places),
        mean=tuple(fmean(each) for each in values),
        std=tuple(stdev(each) if len(each) > 1 else 0.0 for each in values),
        count=tuple(len(each) for each in values),
        values=values,
    )


def one_a_victim(records: Iterable[Record]) -> list[Record]:
    """One done record of each victim: attacks on the same one share what is the victim's, as its training loss."""
    found: dict[str, Record] = {}
    for record in done(records):
        found.setdefault(outcome_of(record).target, record)
    return list(found.values())


def recovered(record: Record) -> bool:
    """Whether the error that the attack answers for is below 1e-3."""
    return outcome_of(record).claimed_error < RECOVERED


def share_recovered(records: Sequence[Record]) -> float:
    """How many of the done records are recovered; NaN if there are none."""
    judged = [recovered(record) for record in done(records)]
    return fmean(judged) if judged else math.nan


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's interval of 95 % for a share; the whole [0, 1] without trials."""
    if trials == 0:
        return 0.0, 1.0
    share, squared = successes / trials, _NORMAL_QUANTILE**2
    centre = (share + squared / (2 * trials)) / (1 + squared / trials)
    spread = share * (1 - share) / trials + squared / (4 * trials**2)
    half = _NORMAL_QUANTILE * math.sqrt(spread) / (1 + squared / trials)
    # At the ends the interval touches the share; rounding must not put it inside.
    return min(max(0.0, centre - half), share), max(min(1.0, centre + half), share)


def widest(records: Sequence[Record]) -> list[Record]:
    """The done records with the most parameters."""
    most = max((outcome_of(record).num_parameters for record in done(records)), default=0)
    return [record for record in done(records) if outcome_of(record).num_parameters == most]


def failures(records: Sequence[Record]) -> str:
    """How many cells failed, in words; empty if none did."""
    failed = sum(record.state == "failed" for record in records)
    return f"{failed} of {len(records)} cells failed" if failed else ""
