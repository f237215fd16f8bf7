"""Whole drawings that several figures share: a row of threshold plots, one for each kind of cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from exhume.figures import curves, style
from exhume.figures.findings import thresholds
from exhume.figures.statistics import Number, grouped, num_parameters

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.record import Record

Titled = Callable[["Record"], str]


def threshold_drawing(
    title: Titled,
    *,
    show: Sequence[str] = ("error", "training_loss"),
    variants: Titled | None = None,
    x: Number = num_parameters,
    x_label: str = "number of parameters p",
) -> Callable[[Sequence[Record]], Drawing]:
    """A draw function: the paper's plot for each title, side by side, with one legend."""

    def draw(records: Sequence[Record]) -> Drawing:
        found = grouped(records, title)
        sheet, axes = style.figure(columns=max(1, len(found)))
        for axis, (name, mine) in zip(axes, found.items(), strict=False):
            curves.threshold_panel(axis, mine, title=name, show=show, variants=variants, x=x, x_label=x_label)
        style.legend_below(sheet, axes)
        return sheet

    return draw


def threshold_findings(title: Titled) -> Callable[[Sequence[Record]], str]:
    """A findings function: `thresholds` of each title's cells."""

    def findings(records: Sequence[Record]) -> str:
        return " ".join(f"({name}) {thresholds(mine)}" for name, mine in grouped(records, title).items())

    return findings


def sizes(record: Record) -> str:
    """(d, n) of synthetic data."""
    options = record.cell.data.options
    return f"d = {options['dim']}, n = {options['samples']}"
