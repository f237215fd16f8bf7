"""Plots against the number of parameters: one line per method, means over seeds, the standard deviation as a band."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.ticker import FormatStrFormatter, NullFormatter

from exhume.errors import InputError
from exhume.report.chart_style import legend_below
from exhume.research.paper_figures.statistics import (
    Number,
    claimed_error,
    done,
    grouped,
    is_exact,
    method_of,
    num_parameters,
    number,
    of_method,
    one_a_victim,
    orthogonal_residual,
    outcome_of,
    series,
    wilson,
)
from exhume.research.paper_figures.style import (
    BLACK,
    GREY,
    OTHER_COLOURS,
    SMALL,
    USUAL,
    colour_of,
    figure,
    lighter,
    name_of,
    tones,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.store import Record

# The smallest number that log axes show: float32 reaches about this.
FLOOR = 1e-7
SHOWN = ("error", "training_loss", "orthogonal_residual")
MARKERS = "osD^vP*X"
_FLOORS = {"loss": 1e-14, "steps": 1.0}  # a loss is an error squared
_MOST_TICKS = 12

Variant = Callable[["Record"], str]


def line(
    axis: Any,
    found: pd.DataFrame,
    *,
    label: str,
    colour: str,
    form: str = "-o",
    floor: float = FLOOR,
    seeds: bool = True,
) -> None:
    """Draws means as a line, their standard deviation as a band and every seed as a faint point.

    Args:
        form: line style and marker, as matplotlib writes them.
        floor: smaller numbers are drawn there, for log axes.
        seeds: whether the points are drawn.
    """
    if found.empty:
        return
    # A band that would reach zero, which a log axis does not have, ends at the smallest seed.
    edges = found["mean"] - found["std"]
    below = edges.where(edges > 0, found["min"]).clip(floor)
    above = (found["mean"] + found["std"]).clip(floor)
    means = found["mean"].clip(floor)
    axis.plot(found.index, means, form, color=colour, markersize=3.5, linewidth=1.5, label=label, zorder=3)
    axis.fill_between(found.index, below, above, color=colour, alpha=0.18, linewidth=0, zorder=2)
    if seeds and found["count"].max() > 1:
        points = found["values"].explode().astype(float).clip(floor)
        axis.plot(points.index, points, ".", color=colour, markersize=2.5, alpha=0.45, zorder=2.5)


def walls(axis: Any, records: Iterable[Record]) -> None:
    """Draws p = n and p = d n as vertical lines with their names above."""
    finished = [outcome_of(record) for record in done(records)]
    at_n = {each.num_samples for each in finished}
    at_dn = {each.num_samples * each.input_dim for each in finished}
    for places, name, style in ((at_n, "p = n", ":"), (at_dn, "p = dn", "--")):
        for place in sorted(places):
            axis.axvline(place, color=GREY, linestyle=style, linewidth=1.1, zorder=1)
            high = axis.get_xaxis_transform()
            axis.text(place, 1.01, name, transform=high, ha="center", va="bottom", fontsize=SMALL, color="#444444")


def side_by_side(
    title: Variant, panel: Callable[..., None], *, legend: bool = True, **options: Any
) -> Callable[[Sequence[Record]], Drawing]:
    """A draw function: the panel with these options for each title, side by side, with one legend below."""

    def draw(records: Sequence[Record]) -> Drawing:
        found = grouped(records, title)
        sheet, axes = figure(columns=max(1, len(found)))
        for axis, (name, mine) in zip(axes, found.items(), strict=False):
            panel(axis, mine, title=name, **options)
        if legend:
            legend_below(sheet, *axes)
        return sheet

    return draw


def threshold_panel(
    axis: Any,
    records: Sequence[Record],
    *,
    title: str = "",
    show: Sequence[str] = ("error", "training_loss"),
    variants: Variant | None = None,
    x: Number = num_parameters,
    x_label: str = "number of parameters p",
) -> None:
    """The paper's plot: errors of every attack and the training loss against p, with both axes logarithmic.

    Args:
        show: of "error", "training_loss", "orthogonal_residual".
        variants: names settings that are drawn apart, in tones from full to light in order of appearance.
        x: p of a record; pruned victims have one before and one after.
    """
    for name in show:
        if name not in SHOWN:
            raise InputError(f"a panel cannot show {name!r}; valid: {', '.join(SHOWN)}")
    by_variant = grouped(done(records), variants or (lambda _: ""))
    dark = tones(BLACK, len(by_variant))
    if "training_loss" in show:
        for (variant, members), tone in zip(by_variant.items(), dark, strict=True):
            found = series(one_a_victim(members), x, number("training_loss"))
            name = _label("training loss (drawn from 1e-7 up)", variant, by_variant)
            line(axis, found, label=name, colour=tone, form="--" if variants else "-")
    for method in grouped(done(records), method_of):
        sign = _sign(of_method(records, method))
        for (variant, members), tone in zip(by_variant.items(), tones(colour_of(method), len(by_variant)), strict=True):
            mine = of_method(members, method)
            if "error" in show:
                name = _label(f"{name_of(method)}: {sign}", variant, by_variant)
                line(axis, series(mine, x, claimed_error), label=name, colour=tone)
            if "orthogonal_residual" in show:
                found = series(mine, x, orthogonal_residual)
                name = _label(f"{name_of(method)}: orthogonal residual", variant, by_variant)
                line(axis, found, label=name, colour=lighter(tone, 0.35), form="--")
    if variants is not None:
        for variant, tone in zip(by_variant, dark, strict=True):
            axis.plot([], [], "s", color=tone, label=variant)
    walls(axis, records)
    _log_axes(axis, title, x_label, "error, training loss" if "training_loss" in show else "error")


def step_panel(axis: Any, records: Sequence[Record], column: str, *, variants: Variant, title: str) -> None:
    """A number of the outcome against p: one line for each setting of descent, and exact for reference.

    Args:
        column: "error" for the claimed error, or a field of the outcome: "steps", "loss", ...
        variants: names the setting, for example a step size.
        title: of the panel and of its axis.
    """
    y = claimed_error if column == "error" else number(column)
    look: dict[str, Any] = {"floor": _FLOORS.get(column, FLOOR), "seeds": False}
    by_variant = grouped(of_method(done(records), "descent"), variants)
    tone = tones(colour_of("descent"), max(1, len(by_variant)))
    for (variant, members), colour, marker in zip(by_variant.items(), tone, cycle(MARKERS), strict=False):
        name = f"{name_of('descent')}, {variant}"
        line(axis, series(members, num_parameters, y), label=name, colour=colour, form=f"-{marker}", **look)
    reference = series(of_method(records, "exact"), num_parameters, y)
    line(axis, reference, label=name_of("exact"), colour=colour_of("exact"), **look)
    walls(axis, records)
    _log_axes(axis, title, "number of parameters p", title, top=None)


def configured_ratio(record: Record) -> float:
    """p / (d n) as configured, or as measured where the configured ratio is one of r n, in a subspace."""
    configured, measured = record.cell.ratio, outcome_of(record).ratio
    if configured is not None and math.isclose(configured, measured, rel_tol=0.05):
        return configured
    return float(f"{measured:.3g}")


def success_panel(
    axis: Any,
    records: Sequence[Record],
    *,
    by: Variant = method_of,
    title: str = "",
    x: Callable[[Record], float] = configured_ratio,
    x_label: str = "p / (d n)",
) -> None:
    """The share of cells with an error below 1e-3 against p / (d n), with Wilson's intervals of 95 %.

    Args:
        by: names the lines; methods keep their colours.
        x: another ratio than p / (d n).
    """
    groups = grouped(done(records), by)
    ratios = [x(record) for record in done(records)] or [1.0]
    apart = 1 + 0.008 * math.log(max(ratios) / min(ratios))
    for index, (label, members) in enumerate(groups.items()):
        found = series(members, x, is_exact)
        low, high = zip(*(wilson(int(sum(won)), len(won)) for won in found["values"]), strict=True)
        method = method_of(members[0])
        colour = colour_of(method) if label == method else OTHER_COLOURS[index % len(OTHER_COLOURS)]
        marker = MARKERS[index % len(MARKERS)]
        look = {"color": colour, "marker": marker, "markersize": 4.5, "linewidth": 1.5}
        axis.plot(found.index, found["mean"], label=name_of(label), **look)
        # Intervals of several lines are drawn side by side; the points are at their true places.
        beside = apart ** (index - (len(groups) - 1) / 2)
        axis.vlines(beside * found.index, low, high, color=colour, linewidth=0.9, alpha=0.8)
    axis.axvline(1.0, color=GREY, linestyle="--", linewidth=1.1)
    axis.set(xscale="log", ylim=(-0.03, 1.03), xlabel=x_label, ylabel="share of runs with error < 1e-3")
    _plain_ticks(axis)
    axis.set_title(title, fontsize=USUAL)


def precision_panel(
    axis: Any, records: Sequence[Record], *, by: Variant, order: Sequence[str], title: str = ""
) -> None:
    """Errors for each class of cells, such as a precision of the weights, and the errors that the certificate predicts.

    Args:
        by: names the class.
        order: of the classes along the axis.
    """

    def place(record: Record) -> float:
        return order.index(by(record))

    for method, mine in grouped(done(records), method_of).items():
        colour, name = colour_of(method), name_of(method)
        line(axis, series(mine, place, claimed_error), label=f"{name}: {_sign(mine)}", colour=colour)
        predicted = series(mine, place, number("predicted_error"))
        if len(predicted):
            look = {"linestyle": "none", "marker": "D", "markerfacecolor": "none", "color": colour}
            label = f"{name}: error that its certificate predicts"
            axis.plot(predicted.index + 0.08, predicted["mean"].clip(FLOOR), label=label, **look)
    axis.set_xticks(range(len(order)), order)
    axis.set(yscale="log", ylabel="error")
    axis.set_title(title, fontsize=USUAL)


def _label(name: str, variant: str, variants: Iterable[str]) -> str:
    """The label of a line: legends show it once, for the first variant, and explain the tones separately."""
    return name if variant == next(iter(variants)) else f"_{name}, {variant}"


def _sign(records: Iterable[Record]) -> str:
    """Which error is drawn for an attack."""
    claims = any(outcome_of(record).signs_determined for record in done(records))
    return "error, signs included where claimed" if claims else "error up to sign"


def _log_axes(axis: Any, title: str, x_label: str, y_label: str, top: float | None = 3.0) -> None:
    axis.set(xscale="log", yscale="log", xlabel=x_label, ylabel=y_label)
    if top is not None:
        highest = max([top, *(float(max(each.get_ydata())) for each in axis.lines if len(each.get_xdata()) > 2)])
        axis.set_ylim(FLOOR / 2, 1.2 * highest if highest > top else top)
    axis.set_title(title, fontsize=USUAL, pad=16)


def _plain_ticks(axis: Any) -> None:
    """Ticks with plain numbers, at the places of the points unless these are too many."""
    places = sorted({float(x) for each in axis.lines if len(each.get_xdata()) > 2 for x in each.get_xdata()})
    if 0 < len(places) <= _MOST_TICKS:
        axis.set_xticks(places)
    axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axis.xaxis.set_minor_formatter(NullFormatter())
