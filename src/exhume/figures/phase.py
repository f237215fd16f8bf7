"""Beyond the paper: the phase diagram over the number of samples and of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exhume.figures import maps, style
from exhume.figures.base import Figure, Scale
from exhume.figures.protocols import descent, exact, sphere
from exhume.figures.statistics import done, grouped, method_of, outcome_of, recovered
from exhume.figures.style import name_of
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.record import Record

_LAPTOP = Grid(
    name="phase diagram, d = 20",
    data=[sphere(20, n) for n in (2, 4, 8, 16, 32)],
    features=[10, 20, 40, 80, 160, 320, 640, 1280, 2560],
    attack=[descent(1000), exact(3000)],
    seeds=2,
)
_LARGE = Grid(
    name="phase diagram, d = 50",
    data=[sphere(50, n) for n in (2, 4, 8, 16, 32, 64, 128)],
    features=[round(10 * 2 ** (step / 2)) for step in range(23)],
    attack=[descent(60_000), exact()],
    seeds=5,
)


def _draw(records: Sequence[Record]) -> Drawing:
    found = grouped(records, method_of)
    sheet, axes = style.figure(columns=max(1, len(found)))
    for axis, (method, mine) in zip(axes, found.items(), strict=False):
        maps.phase_panel(axis, mine, value="error", title=name_of(method))
    return sheet


def _findings(records: Sequence[Record]) -> str:
    parts = []
    for method, mine in grouped(done(records), method_of).items():
        above = [recovered(record) for record in mine if outcome_of(record).ratio >= 2]
        below = [recovered(record) for record in mine if outcome_of(record).ratio <= 1]
        parts.append(
            f"{name_of(method)}: error below 1e-3 in {sum(above)} of {len(above)} runs with p at least 2dn, and in "
            f"{sum(below)} of {len(below)} with p at most dn"
        )
    return "; ".join(parts) + "."


FIGURE = Figure(
    name="phase",
    title="The phase diagram",
    shows="The median error of both attacks over (n, p), with the lines p = n and p = dn.",
    claim="The law predicts a border p = dn, a straight line of slope one in logarithms.",
    laptop=Scale(
        "sphere d = 20, n from 2 to 32, p from 10 to 2560, 2 seeds, descent of at most 1,000 steps, exact of at most "
        "3,000 passes",
        (_LAPTOP,),
        1,
    ),
    paper=Scale(
        "sphere d = 50, n from 2 to 128, p from 10 to 20,480, 5 seeds, descent of at most 60,000 steps, exact without "
        "a limit of passes",
        (_LARGE,),
        5_000,
    ),
    draw=_draw,
    findings=_findings,
    beyond=True,
)
