"""What an attack did on a victim, and how attacks are ranked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

_VERDICTS = ("exact", "approximate", "failed")


@dataclass(frozen=True)
class Row:
    """One attack on one victim.

    Attributes:
        victim, attack: which.
        reason: why it did not run; empty if it did.
        recovered, num_samples: samples with an error below 0.1, signs counted as the attack claims them.
        error: mean over the samples, likewise.
        certified: samples that the attack's certificate calls recovered, and of them those that are not.
        passes, seconds: what it cost.
        verdict: of its certificate.
        rank: 1 is the best on this victim; equal results share a rank; attacks that did not run share the last.
    """

    victim: str
    attack: str
    reason: str = ""
    recovered: int | None = None
    num_samples: int | None = None
    error: float | None = None
    certified: int | None = None
    wrongly_certified: int | None = None
    passes: float | None = None
    seconds: float | None = None
    verdict: str | None = None
    rank: int = 0

    @property
    def ran(self) -> bool:
        """Whether there is a result."""
        return not self.reason

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; numbers that are not finite become null."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(self).items()
        }


def ranked(rows: Sequence[Row]) -> list[Row]:
    """The rows of one victim, the best first, with their ranks.

    More recovered samples are better, then more exact ones (verdict), then fewer passes; errors that recover nothing
    and results that did not run share a rank.
    """
    keys = {id(row): _key(row) for row in rows}
    places = sorted(set(keys.values()))
    return [replace(row, rank=1 + places.index(keys[id(row)])) for row in sorted(rows, key=lambda row: keys[id(row)])]


def mean_ranks(rows: Sequence[Row]) -> Mapping[str, float]:
    """The mean rank of every attack over the victims, the best first."""
    names = dict.fromkeys(row.attack for row in rows)
    means = {name: fmean(row.rank for row in rows if row.attack == name) for name in names}
    return dict(sorted(means.items(), key=lambda each: each[1]))


def _key(row: Row) -> tuple[float, ...]:
    if not row.ran:
        return (2.0, 0.0, 0.0, 0.0)
    if not row.recovered:
        return (1.0, 0.0, 0.0, 0.0)
    verdict = _VERDICTS.index(row.verdict) if row.verdict in _VERDICTS else len(_VERDICTS)
    return (0.0, -row.recovered, verdict, row.passes or 0.0)
