"""Beyond the paper: how sharp the threshold is, and how close to 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exhume.figures import curves, style
from exhume.figures.base import Figure, Scale
from exhume.figures.findings import smallest_solved
from exhume.figures.panels import sizes
from exhume.figures.protocols import exact, sphere
from exhume.figures.statistics import done, grouped, outcome_of, share_recovered
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.record import Record

_RATIOS = [1.2, 1.3, 1.4, 1.5, 1.6, 1.75, 2]
_LAPTOP = Grid(
    name="threshold",
    data=[sphere(20, 5), sphere(20, 10), sphere(30, 20), sphere(50, 10)],
    ratio=_RATIOS,
    attack=exact(8000),
    seeds=8,
)
_LARGE = Grid(
    name="threshold, large",
    data=[sphere(20, 10), sphere(30, 20), sphere(50, 50), sphere(100, 20), sphere(100, 100)],
    ratio=[1.05, 1.1, *_RATIOS, 2.5, 3],
    attack=exact(),
    seeds=20,
)


def _draw(records: Sequence[Record]) -> Drawing:
    sheet, (axis,) = style.figure()
    curves.success_panel(axis, records, by=sizes, title="exact: success against p / (d n)")
    style.legend_below(sheet, [axis])
    return sheet


def _findings(records: Sequence[Record]) -> str:
    parts = []
    for name, mine in grouped(done(records), sizes).items():
        by_ratio = sorted(grouped(mine, lambda record: record.cell.ratio or 0.0).items())
        first = next((ratio for ratio, members in by_ratio if share_recovered(members) > 0), None)
        whole = smallest_solved(mine)
        some = "no run is below 1e-3" if first is None else f"the first run below 1e-3 at {first:g}dn"
        parts.append(f"{name}: {some}, " + ("not all at any" if whole is None else f"all from {whole:.3g}dn on"))
    wrong = sum(outcome_of(each).verdict != "failed" and outcome_of(each).error > 0.1 for each in done(records))
    return "; ".join(parts) + f". Called exact or approximate with an error above 0.1: {wrong} runs."


FIGURE = Figure(
    name="threshold",
    title="How sharp the threshold is",
    shows="The share of runs that exact recovers to better than 1e-3, against p / (d n), for several (d, n).",
    claim="p = dn is where equations and unknowns are equal in number; the paper's curves fall over an order of "
    "magnitude of p above it.",
    laptop=Scale(
        "sphere (d, n) = (20, 5), (20, 10), (30, 20), (50, 10), p from 1.2 to 2dn, 8 seeds, exact of at most 8,000 "
        "passes",
        (_LAPTOP,),
        7,
    ),
    paper=Scale(
        "sphere (d, n) = (20, 10), (30, 20), (50, 50), (100, 20), (100, 100), p from 1.05 to 3dn, 20 seeds, exact "
        "without a limit of passes",
        (_LARGE,),
        3_000,
    ),
    draw=_draw,
    findings=_findings,
    beyond=True,
)
