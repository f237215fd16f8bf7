"""Plots against the number of parameters: a line a method, its mean over seeds, the standard deviation as a band."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FormatStrFormatter, NullFormatter

from exhume.errors import InputError
from exhume.figures.statistics import (
    Number,
    Series,
    claimed_error,
    done,
    grouped,
    method_of,
    num_parameters,
    of_method,
    one_a_victim,
    outcome_of,
    recovered,
    series,
    wilson,
)
from exhume.figures.style import BLACK, GREY, OTHER_COLOURS, SMALL, USUAL, colour_of, lighter, name_of, tones

if TYPE_CHECKING:
    from exhume.sweep.record import Record

# The smallest number that log axes show: float32 reaches about this.
FLOOR = 1e-7
SHOWN = ("error", "training_loss", "orthogonal_residual")
MARKERS = "osD^vP*X"
_FLOORS = {"loss": 1e-14, "steps": 1.0}  # a loss is an error squared
_MOST_TICKS = 12

Variant = Callable[["Record"], str]


def line(
    axis: Any,
    found: Series,
    *,
    label: str,
    colour: str,
    style: str = "-",
    marker: str = "o",
    floor: float = FLOOR,
    seeds: bool = True,
) -> None:
    """Draws one line of means, their standard deviation as a band and every seed as a faint point.

    Args:
        floor: smaller numbers are drawn there, for log axes.
        seeds: whether the points are drawn.
    """
    if not found.x:
        return
    means = [max(mean, floor) for mean in found.mean]
    # Where the band would pass zero, which a log axis does not have, it goes down to the smallest seed.
    edges = [mean - std for mean, std in zip(found.mean, found.std, strict=True)]
    below = [max(edge if edge > 0 else min(seen), floor) for edge, seen in zip(edges, found.values, strict=True)]
    above = [max(mean + std, floor) for mean, std in zip(found.mean, found.std, strict=True)]
    axis.plot(found.x, means, style, color=colour, marker=marker, markersize=3.5, linewidth=1.5, label=label, zorder=3)
    axis.fill_between(found.x, below, above, color=colour, alpha=0.18, linewidth=0, zorder=2)
    if seeds and max(found.count) > 1:
        points = [(x, max(value, floor)) for x, values in zip(found.x, found.values, strict=True) for value in values]
        axis.plot(*zip(*points, strict=True), ".", color=colour, markersize=2.5, alpha=0.45, zorder=2.5)


def walls(axis: Any, records: Iterable[Record], *, scale: Callable[[Record], float] | None = None) -> None:
    """Draws p = n and p = d n as vertical lines with their names above.

    Args:
        scale: what the x axis divides p by.
    """
    finished = done(records)
    by = scale or (lambda _: 1.0)
    at_n = {outcome_of(record).num_samples / by(record) for record in finished}
    at_dn = {outcome_of(record).num_samples * outcome_of(record).input_dim / by(record) for record in finished}
    for places, name, style in ((at_n, "p = n", ":"), (at_dn, "p = dn", "--")):
        for place in sorted(places):
            axis.axvline(place, color=GREY, linestyle=style, linewidth=1.1, zorder=1)
            high = axis.get_xaxis_transform()
            axis.text(place, 1.01, name, transform=high, ha="center", va="bottom", fontsize=SMALL, color="#444444")


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
            found = series(one_a_victim(members), x, lambda record: outcome_of(record).training_loss)
            name = _label("training loss (drawn from 1e-7 up)", variant, by_variant)
            line(axis, found, label=name, colour=tone, style="--" if variants else "-", marker="")
    for method in grouped(done(records), method_of):
        sign = _sign(of_method(records, method))
        for (variant, members), tone in zip(by_variant.items(), tones(colour_of(method), len(by_variant)), strict=True):
            mine = of_method(members, method)
            if "error" in show:
                name = _label(f"{name_of(method)}: {sign}", variant, by_variant)
                line(axis, series(mine, x, claimed_error), label=name, colour=tone)
            if "orthogonal_residual" in show:
                found = series(mine, x, lambda record: outcome_of(record).orthogonal_residual)
                name = _label(f"{name_of(method)}: orthogonal residual", variant, by_variant)
                line(axis, found, label=name, colour=lighter(tone, 0.35), style="--", marker="")
    if variants is not None:
        for variant, tone in zip(by_variant, dark, strict=True):
            axis.plot([], [], "s", color=tone, label=variant)
    walls(axis, records)
    _log_axes(axis, title, x_label, "error, training loss" if "training_loss" in show else "error")


def step_panel(
    axis: Any,
    records: Sequence[Record],
    column: str,
    *,
    variants: Variant,
    title: str = "",
    y_label: str = "",
    methods: tuple[str, str] = ("descent", "exact"),
) -> None:
    """A number of the outcome against p: one line for each setting of the first method, the second for reference.

    Args:
        column: "error" for the one that the attack answers for, or a field of the outcome: "steps", "loss", ...
        variants: names the setting, a step size, say.
    """
    first, second = methods

    def number(record: Record) -> float | None:
        return claimed_error(record) if column == "error" else getattr(outcome_of(record), column)

    look: dict[str, Any] = {"floor": _FLOORS.get(column, FLOOR), "seeds": False}
    by_variant = grouped(of_method(done(records), first), variants)
    tone = tones(colour_of(first), max(1, len(by_variant)))
    for (variant, members), colour, marker in zip(by_variant.items(), tone, cycle(MARKERS), strict=False):
        name = f"{name_of(first)}, {variant}"
        line(axis, series(members, num_parameters, number), label=name, colour=colour, marker=marker, **look)
    reference = series(of_method(records, second), num_parameters, number)
    line(axis, reference, label=name_of(second), colour=colour_of(second), **look)
    walls(axis, records)
    _log_axes(axis, title, "number of parameters p", y_label or column, top=None)


def success_panel(
    axis: Any,
    records: Sequence[Record],
    *,
    by: Variant = method_of,
    title: str = "",
    at: float = 1.0,
    x: Callable[[Record], float] | None = None,
    x_label: str = "p / (d n)",
) -> None:
    """The share of cells with an error below 1e-3 against p / (d n), with Wilson's intervals of 95 %.

    Args:
        by: names the lines; methods keep their colours.
        x: another ratio than p / (d n).
        at: where the vertical line is drawn.
    """
    groups = grouped(done(records), by)
    ratios = [(x or _ratio)(record) for record in done(records)] or [1.0]
    apart = 1 + 0.008 * math.log(max(ratios) / min(ratios))
    for index, (label, members) in enumerate(groups.items()):
        by_ratio = sorted(grouped(members, x or _ratio).items())
        wins, trials = [sum(map(recovered, each)) for _, each in by_ratio], [len(each) for _, each in by_ratio]
        shares = [won / of for won, of in zip(wins, trials, strict=True)]
        low, high = zip(*(wilson(won, of) for won, of in zip(wins, trials, strict=True)), strict=True)
        places = [ratio for ratio, _ in by_ratio]
        method = method_of(members[0])
        colour = colour_of(method) if label == method else OTHER_COLOURS[index % len(OTHER_COLOURS)]
        marker = MARKERS[index % len(MARKERS)]
        axis.plot(places, shares, color=colour, marker=marker, markersize=4.5, linewidth=1.5, label=name_of(label))
        # Bars of several lines stand side by side; the points are where they belong.
        beside = apart ** (index - (len(groups) - 1) / 2)
        axis.vlines([beside * place for place in places], low, high, color=colour, linewidth=0.9, alpha=0.8)
    axis.axvline(at, color=GREY, linestyle="--", linewidth=1.1)
    axis.set_xscale("log")
    axis.set_ylim(-0.03, 1.03)
    _plain_ticks(axis)
    axis.set_xlabel(x_label)
    axis.set_ylabel("share of runs with error < 1e-3")
    axis.set_title(title, fontsize=USUAL)


def precision_panel(
    axis: Any, records: Sequence[Record], *, by: Variant, order: Sequence[str] | None = None, title: str = ""
) -> None:
    """Errors for each class of cells (a precision of the weights, say), and beside them what the certificate predicted.

    Args:
        by: names the class.
        order: of the classes along the axis; that of their appearance if left out.
    """
    finished = done(records)
    classes = list(order or grouped(finished, by))
    methods = list(grouped(finished, method_of))
    for number, method in enumerate(methods):
        mine = of_method(finished, method)
        shift = 0.22 * (number - (len(methods) - 1) / 2)
        colour = colour_of(method)

        def place(record: Record, shift: float = shift) -> float | None:
            return classes.index(by(record)) + shift if by(record) in classes else None

        name = f"{name_of(method)}: {_sign(mine)}"
        line(axis, series(mine, place, claimed_error), label=name, colour=colour)
        predicted = series(mine, place, lambda record: outcome_of(record).predicted_error)
        if predicted.x:
            axis.plot(
                [x + 0.08 for x in predicted.x],
                [max(mean, FLOOR) for mean in predicted.mean],
                linestyle="none",
                marker="D",
                markerfacecolor="none",
                color=colour,
                label=f"{name_of(method)}: error that its certificate predicts",
            )
    axis.set_xticks(range(len(classes)), classes)
    axis.set_yscale("log")
    axis.set_ylabel("error")
    axis.set_title(title, fontsize=USUAL)


def _label(name: str, variant: str, variants: Iterable[str]) -> str:
    """The name of a line; legends have it once, for the first variant, and tell of tones apart."""
    return name if variant == next(iter(variants)) else f"_{name}, {variant}"


def _sign(records: Iterable[Record]) -> str:
    """Which error an attack answers for."""
    claims = any(outcome_of(record).signs_determined for record in done(records))
    return "error, signs included where claimed" if claims else "error up to sign"


def _log_axes(axis: Any, title: str, x_label: str, y_label: str, top: float | None = 3.0) -> None:
    axis.set_xscale("log")
    axis.set_yscale("log")
    if top is not None:
        highest = max([top, *(float(max(each.get_ydata())) for each in axis.lines if len(each.get_xdata()) > 2)])
        axis.set_ylim(FLOOR / 2, 1.2 * highest if highest > top else top)
    axis.set_xlabel(x_label)
    axis.set_ylabel(y_label)
    axis.set_title(title, fontsize=USUAL, pad=16)


def _ratio(record: Record) -> float:
    """p / (d n) as it was asked for, or as it came out: in a subspace one asks for multiples of r n."""
    asked, came = record.cell.ratio, outcome_of(record).ratio
    return asked if asked is not None and math.isclose(asked, came, rel_tol=0.05) else float(f"{came:.3g}")


def _plain_ticks(axis: Any) -> None:
    """Ratios as numbers a reader knows, at the places where there are any unless they are too many."""
    places = sorted({float(x) for each in axis.lines if len(each.get_xdata()) > 2 for x in each.get_xdata()})
    if 0 < len(places) <= _MOST_TICKS:
        axis.set_xticks(places)
    axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axis.xaxis.set_minor_formatter(NullFormatter())
