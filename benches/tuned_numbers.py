"""The numbers of a tuning dataclass (`exhume.support.tuning`): found, replaced one at a time, halved and doubled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from exhume.support.tuning import KEY, Evidence


@dataclass(frozen=True)
class TunedNumber:
    """One number of a tuning dataclass: where it stands, its value and its evidence."""

    path: tuple[str, ...]
    value: float
    evidence: Evidence

    @property
    def name(self) -> str:
        """The path with dots."""
        return ".".join(self.path)


def tuned_numbers(tuning: Any, evidence: Evidence | None = None) -> Iterator[TunedNumber]:
    """Every number of a tuning dataclass and of those inside it; a rule's numbers have the evidence of its field."""
    for each in fields(tuning):
        value, known = getattr(tuning, each.name), each.metadata.get(KEY, evidence)
        if is_dataclass(value):
            for inner in tuned_numbers(value, known):
                yield replace(inner, path=(each.name, *inner.path))
        elif known is not None and isinstance(value, int | float) and not isinstance(value, bool):
            yield TunedNumber((each.name,), value, known)


def with_number(tuning: Any, path: tuple[str, ...], value: float) -> Any:
    """A copy of a tuning dataclass with another value at the path."""
    first, *rest = path
    inner = with_number(getattr(tuning, first), tuple(rest), value) if rest else value
    return replace(tuning, **{first: inner})


def scaled(number: TunedNumber, factor: float) -> float:
    """The number times a factor; whole numbers stay whole and positive, of shares the distance to 1 is divided."""
    if isinstance(number.value, int):
        return max(1, round(number.value * factor))
    if number.evidence.unit == "share" and number.value > 0.5:
        return 1 - (1 - number.value) / factor
    return number.value * factor
