"""Beyond the paper: the precision of the released weights."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from exhume.figures import curves, style
from exhume.figures.base import Figure, Scale
from exhume.figures.protocols import exact, sphere
from exhume.figures.statistics import done, grouped, outcome_of
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.record import Record

_VICTIMS: list[dict[str, Any]] = [
    {"dtype": "float64"},
    {},
    {"released": "float16"},
    {"released": "bfloat16"},
    {"released": "int8"},
]
_ORDER = ("float64", "float32", "float16", "bfloat16", "int8")
_LAPTOP = Grid(
    name="precision of the weights",
    data=sphere(30, 20),
    victim=_VICTIMS,
    ratio=[2, 5, 20],
    attack=exact(6000),
    seeds=3,
)
_LARGE = Grid(
    name="precision of the weights, large",
    data=sphere(100, 100),
    victim=_VICTIMS,
    ratio=[3, 5, 10, 20],
    attack=exact(),
    seeds=10,
)


def _precision(record: Record) -> str:
    victim = record.cell.victim.model_dump()
    return str(victim["dtype"] if victim["released"] == "as trained" else victim["released"])


def _width(record: Record) -> str:
    return f"p = {record.cell.ratio:g}dn"


def _draw(records: Sequence[Record]) -> Drawing:
    found = grouped(records, _width)
    sheet, axes = style.figure(columns=max(1, len(found)))
    for axis, (name, mine) in zip(axes, found.items(), strict=False):
        curves.precision_panel(axis, mine, by=_precision, order=_ORDER, title=name)
    style.legend_below(sheet, axes)
    return sheet


def _findings(records: Sequence[Record]) -> str:
    parts = []
    for width, mine in grouped(done(records), _width).items():
        errors = {
            name: fmean(outcome_of(each).claimed_error for each in members)
            for name, members in grouped(mine, _precision).items()
        }
        parts.append(f"{width}: " + ", ".join(f"{name} {error:.1e}" for name, error in errors.items()))
    return "Mean error: " + "; ".join(parts) + "."


FIGURE = Figure(
    name="precision",
    title="Precision of the released weights",
    shows="The error of exact on weights released in float64, float32, float16, bfloat16 and int8, and the error that "
    "its certificate predicts.",
    claim="Rounding is noise: the error should grow in proportion to it, and fall with more parameters.",
    laptop=Scale(
        "sphere d = 30, n = 20, p = 2, 5 and 20dn, 3 seeds, exact of at most 6,000 passes",
        (_LAPTOP,),
        1,
    ),
    paper=Scale(
        "sphere d = 100, n = 100, p = 3 to 20dn, 10 seeds, exact without a limit of passes",
        (_LARGE,),
        2_000,
    ),
    draw=_draw,
    findings=_findings,
    beyond=True,
)
