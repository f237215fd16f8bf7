"""Figures beyond the paper: how sharp the threshold is, the phase diagram, subspaces, precision of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exhume.report.chart_style import legend_below
from exhume.research.paper_figures import maps, style
from exhume.research.paper_figures.definition import figure
from exhume.research.paper_figures.panels import precision_panel, side_by_side, success_panel
from exhume.research.paper_figures.statistics import (
    by_group,
    done,
    grouped,
    is_exact,
    mean,
    method_name,
    outcome_of,
    sizes,
    smallest_solved,
)
from exhume.results.certificate import RECOVERED_BELOW

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.store import Record

_PRECISIONS = ("float64", "float32", "float16", "bfloat16", "int8")


# How sharp the threshold is
_draw_threshold = side_by_side(lambda record: "exact: success against p / (d n)", success_panel, by=sizes)


def _first_and_all(members: Sequence[Record]) -> str:
    """The first ratio at which a run is exact, and that from which on all are."""
    first = min((record.cell.ratio or 0.0 for record in members if is_exact(record)), default=None)
    whole = smallest_solved(members)
    some = "no run is below 1e-3" if first is None else f"the first run below 1e-3 at {first:g}dn"
    return f"{some}, " + ("not all at any" if whole is None else f"all from {whole:.3g}dn on")


def _threshold_findings(records: Sequence[Record]) -> str:
    wrong = sum(each.verdict != "failed" and each.error > RECOVERED_BELOW for each in map(outcome_of, done(records)))
    found = by_group(records, sizes, _first_and_all)
    return f"{found} Called exact or approximate with an error above {RECOVERED_BELOW}: {wrong} runs."


# The phase diagram
def _both_sides(members: Sequence[Record]) -> str:
    """How many runs are exact above and below the wall."""
    above = [is_exact(record) for record in members if outcome_of(record).ratio >= 2]
    below = [is_exact(record) for record in members if outcome_of(record).ratio <= 1]
    return (
        f"error below 1e-3 in {sum(above)} of {len(above)} runs with p at least 2dn, and in {sum(below)} of "
        f"{len(below)} with p at most dn"
    )


# Data in a subspace of r dimensions
def _in_subspace(record: Record) -> float:
    """p / (r n)."""
    options = record.cell.data.options
    return (record.cell.features or 0) / (options["subspace_dim"] * options["samples"])


def _dimension(record: Record) -> str:
    return f"r = {record.cell.data.options['subspace_dim']}"


def _draw_subspace(records: Sequence[Record]) -> Drawing:
    sheet, axes = style.figure(columns=2)
    success_panel(axes[0], records, by=_dimension, x=_in_subspace, x_label="p / (r n)", title="by dimension r")
    success_panel(axes[1], records, by=_dimension, title="the same runs by d = 200")
    legend_below(sheet, *axes)
    return sheet


def _all_from(members: Sequence[Record]) -> str:
    """The p / (r n) from which on all runs are exact."""
    solved = smallest_solved(members, lambda record: round(_in_subspace(record), 3))
    whole = "not all at any p" if solved is None else f"all from p = {solved:g} rn on"
    return f"{whole} ({sum(map(is_exact, members))} of {len(members)} runs below 1e-3)"


# Precision of the released weights
def _precision(record: Record) -> str:
    victim = record.cell.victim.model_dump()
    return str(victim["dtype"] if victim["released"] == "as trained" else victim["released"])


def _width(record: Record) -> str:
    return f"p = {record.cell.ratio:g}dn"


def _mean_errors(members: Sequence[Record]) -> str:
    """The mean error for each precision."""
    precisions = grouped(members, _precision)
    return ", ".join(f"{name} {mean(mine, 'claimed_error'):.1e}" for name, mine in precisions.items())


FIGURES = (
    figure("threshold", draw=_draw_threshold, findings=_threshold_findings),
    figure(
        "phase",
        draw=side_by_side(method_name, maps.phase_panel, legend=False),
        findings=lambda records: by_group(records, method_name, _both_sides),
    ),
    figure("subspace", draw=_draw_subspace, findings=lambda records: by_group(records, _dimension, _all_from)),
    figure(
        "precision",
        draw=side_by_side(_width, precision_panel, by=_precision, order=_PRECISIONS),
        findings=lambda records: f"Mean error: {by_group(records, _width, _mean_errors)}",
    ),
)
