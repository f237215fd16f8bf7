"""Figure 12: reconstruction with fewer and with more rows than there are samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from exhume.figures import galleries
from exhume.figures.base import Figure, Scale
from exhume.figures.protocols import FROGS_AND_TRUCKS, descent, exact
from exhume.figures.statistics import done, method_of, outcome_of
from exhume.figures.style import name_of
from exhume.scoring import RECOVERED_BELOW
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.record import Record


def _attacks(rows: Sequence[int], steps: int, **limits: Any) -> list[dict[str, Any]]:
    return [each for n in rows for each in (descent(steps, num_samples=n), exact(num_samples=n, **limits))]


_LAPTOP = Grid(
    name="rows, CIFAR-10 16x16, n = 10",
    data={**FROGS_AND_TRUCKS, "per_class": 5, "size": 16},
    ratio=4,
    attack=[*_attacks((6, 8, 12), 1500, passes=3000), exact(num_samples="estimate")],
)
_PAPER = Grid(
    name="rows, CIFAR-10, n = 50",
    data={**FROGS_AND_TRUCKS, "per_class": 25},
    ratio=10,
    attack=[*_attacks((20, 30, 40, 60), 1_000_000), exact(num_samples="estimate")],
)


def _rows(record: Record) -> str:
    wanted = record.cell.attack.num_samples
    words = "rows estimated" if wanted == "estimate" else f"{wanted} rows"
    return f"{name_of(method_of(record))}, {words}"


def _gallery(records: Sequence[Record]) -> Drawing:
    return galleries.gallery(records, rows=_rows, extras=True, title="fewer and more rows than samples")


def _findings(records: Sequence[Record]) -> str:
    parts = []
    for record in done(records):
        outcome = outcome_of(record)
        extra = f", {outcome.duplicates} rows repeat a sample, {outcome.strays} resemble none" * (
            outcome.num_rows > outcome.num_samples
        )
        parts.append(
            f"{_rows(record)}: returns {outcome.num_rows}, {outcome.recovered_up_to_sign} of {outcome.num_samples} "
            f"within {RECOVERED_BELOW}{extra}"
        )
    return "; ".join(parts) + "."


FIGURE = Figure(
    name="fig12",
    title="fewer and more rows than samples",
    shows="What comes out if one looks for fewer or for more samples than there are.",
    claim="With fewer rows the recovered images mix several samples; with more, all samples come back and the extra "
    "rows are duplicates.",
    laptop=Scale(
        "CIFAR-10 frogs and trucks at 16x16 (d = 768), n = 10, p = 4dn, 6, 8 and 12 rows, one seed, descent of at most "
        "1,500 steps, exact of at most 3,000 passes; exact also left to find n by itself",
        (_LAPTOP,),
        4,
    ),
    paper=Scale(
        "CIFAR-10 frogs and trucks (d = 3072), n = 50, p = 10dn, 20, 30, 40 (our choice) and 60 rows, descent until "
        "its loss is 1e-7",
        (_PAPER,),
        10_000,
    ),
    gallery=_gallery,
    findings=_findings,
    pictures_of="CIFAR-10",
)
