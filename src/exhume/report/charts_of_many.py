"""Charts of many attacks: altered copies of a model, and the cells of a sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import NullLocator

from exhume.defences import Outcome
from exhume.report.content import Chart
from exhume.report.placing import place_labels
from exhume.report.svg import COLOURS, OTHERS, chart, legend_below, power_of_ten, powers, printable, sheet
from exhume.scoring import RECOVERED_BELOW

UNDEFENDED = "none"
_MARKERS = ("o", "s", "^", "v", "P", "X", "p", "<", ">", "h")
_SMALLEST = 1e-16  # errors below are drawn here
# Largest over smallest cost from which the axis is bent, and down to which share of the largest it tells costs apart.
_WIDE_SPREAD, _MOST_SPREAD = 100.0, 1e6

# What an alteration costs, the most telling first, and its words.
COSTS = (
    ("held_out_error", "held-out error"),
    ("training_error", "training error"),
    ("output_change", "relative change of the outputs"),
)
Series = Mapping[str, Sequence[tuple[float, float]]]


def cost_measured(outcomes: Sequence[Outcome]) -> tuple[str, str] | None:
    """The name and the words of the first cost that tells outcomes apart, else the first that is there at all.

    A model that fits its training data whatever is done to it has no training error to choose by.
    """
    there: list[tuple[str, str]] = []
    for name, words in COSTS:
        costs = [cost for each in outcomes if (cost := getattr(each.utility, name)) is not None]
        if len(set(costs)) > 1:
            return name, words
        if len(costs) > 1:
            there.append((name, words))
    return there[0] if there else None


def share_recovered(outcome: Outcome) -> float | None:
    """Recovered samples out of all; None if it could not be told."""
    if outcome.recovered is None or not outcome.num_samples:
        return None
    return outcome.recovered / outcome.num_samples


def defences_chart(outcomes: Sequence[Outcome]) -> Chart | None:
    """The share that is still recovered of altered copies, against what the alteration cost; None if nothing is."""
    cost = cost_measured(outcomes)
    if cost is None:
        return None
    name, words = cost
    points = [
        (each, float(getattr(each.utility, name)), share)
        for each in outcomes
        if (share := share_recovered(each)) is not None and getattr(each.utility, name) is not None
    ]
    if not points:
        return None
    families = list(dict.fromkeys(each.defence for each, _, _ in points if each.defence != UNDEFENDED))
    with sheet((7.0, 4.4)) as (drawing, axis):
        _scale_costs(axis, [value for _, value, _ in points])
        for index, family in enumerate(families):
            own = [(value, share) for each, value, share in points if each.defence == family]
            axis.plot(
                *zip(*own, strict=True),
                linestyle="none",
                marker=_MARKERS[index % len(_MARKERS)],
                markersize=8,
                color=OTHERS[index % len(OTHERS)],
                markeredgecolor=COLOURS["ink"],
                markeredgewidth=0.5,
                label=printable(family, 30),
                zorder=3,
            )
        for _, value, share in (point for point in points if point[0].defence == UNDEFENDED):
            axis.plot([value], [share], marker="*", markersize=16, color=COLOURS["leak"], linestyle="none", zorder=4)
        axis.set(ylim=(-0.12, 1.18), xlabel=f"{words} of the altered model", ylabel="share of samples recovered")
        axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        legend_below(drawing, axis)
        place_labels(drawing, axis, [(value, share, _label(each)) for each, value, share in points])
        return chart(
            drawing,
            title="What defences cost, and what they stop",
            description="; ".join(
                f"{printable(_name(each))}: {share:.0%} recovered at a {words} of {value:.3g}"
                for each, value, share in points
            )
            + ".",
            caption=f"Each mark is one altered copy, attacked in the same way. Good defences are low and to the left; "
            f"the star is the model as it is. A sample counts as recovered with an error below {RECOVERED_BELOW:g}.",
        )


def sweep_error_chart(series: Series) -> Chart:
    """Mean error of the attacks of a sweep against p / dn, on a log axis."""
    with sheet() as (drawing, axis):
        _draw_series(axis, series, _SMALLEST)
        axis.set(yscale="log", ylabel="mean relative error")
        powers(axis.yaxis)
        axis.axhline(RECOVERED_BELOW, color=COLOURS["muted"], linestyle="--", label="recovered below this")
        return _sweep_chart(drawing, axis, series, "Error against the size of the model", "mean error")


def sweep_share_chart(series: Series) -> Chart:
    """Share of samples that a sweep's attacks recovered against p / dn."""
    with sheet() as (drawing, axis):
        _draw_series(axis, series, 0.0)
        axis.set(ylim=(-0.04, 1.04), ylabel="share of samples recovered")
        axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        return _sweep_chart(drawing, axis, series, "Samples recovered against the size of the model", "share")


def _draw_series(axis: Any, series: Series, least: float) -> None:
    for index, (name, points) in enumerate(series.items()):
        ordered = sorted(points)
        axis.plot(
            [ratio for ratio, _ in ordered],
            [max(value, least) for _, value in ordered],
            marker=_MARKERS[index % len(_MARKERS)],
            markersize=5,
            linewidth=1.5,
            linestyle=("-", "--", ":")[index // len(OTHERS) % 3],
            color=OTHERS[index % len(OTHERS)],
            label=printable(name, 40),
        )


def _sweep_chart(drawing: Any, axis: Any, series: Series, title: str, words: str) -> Chart:
    axis.axvline(1.0, color=COLOURS["muted"], linestyle=":", label="p = dn")
    axis.set(xscale="log", xlabel="p / dn")
    low, high = axis.get_xlim()
    if high / low > 30:
        powers(axis.xaxis)
    else:
        ratios = sorted({ratio for points in series.values() for ratio, _ in points})
        axis.minorticks_off()
        axis.set_xticks(ratios[:: -(-len(ratios) // 8)])
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    legend_below(drawing, axis)
    told = "; ".join(
        f"{printable(name)}: " + ", ".join(f"{value:.2g} at {ratio:.3g}" for ratio, value in sorted(points)[:12])
        for name, points in list(series.items())[:6]
    )
    return chart(drawing, title=title, description=f"The {words} by p/dn. {told}.")


def _scale_costs(axis: Any, costs: Sequence[float]) -> None:
    """A bent axis if costs differ by orders of magnitude: straight near zero, powers of ten beyond."""
    positive = sorted(cost for cost in costs if cost > 0)
    if len(positive) > 1 and positive[-1] > _WIDE_SPREAD * positive[0]:
        straight = max(positive[0], positive[-1] / _MOST_SPREAD)
        axis.set_xscale("symlog", linthresh=straight, linscale=0.5)
        first, last = math.ceil(math.log10(3 * straight)), math.floor(math.log10(positive[-1])) + 1
        ticks = [0.0, *(10.0**power for power in range(first, last + 1, 1 + (last - first) // 6))]
        axis.set_xticks(ticks, [power_of_ten(tick) for tick in ticks])
        axis.xaxis.set_minor_locator(NullLocator())
    axis.margins(x=0.12)


def _label(outcome: Outcome) -> str:
    return "as it is" if outcome.defence == UNDEFENDED else printable(outcome.setting, 28)


def _name(outcome: Outcome) -> str:
    if outcome.defence == UNDEFENDED:
        return "the model as it is"
    return outcome.setting if outcome.setting.startswith(outcome.defence) else f"{outcome.defence}, {outcome.setting}"
