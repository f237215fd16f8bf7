"""Charts of attacks: how they converged, their error bars, altered copies of a model, and the cells of a sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import NullLocator

from exhume.defences import Outcome
from exhume.defences.measuring import NONE
from exhume.report.chart_style import (
    COLOURS,
    OTHERS,
    chart,
    legend_below,
    place_labels,
    power_of_ten,
    powers,
    printable,
    sheet,
)
from exhume.report.content import Chart
from exhume.results.certificate import EXACT_BELOW, RECOVERED_BELOW
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import Score

_MARKERS = ("o", "s", "^", "v", "P", "X", "p", "<", ">", "h")
_SMALLEST = 1e-16  # errors below are drawn here
_HONEST = 3  # an error bar is a typical error, not the largest: errors of up to this many bars are expected
# If the largest cost exceeds the smallest by more than the first factor, the axis is symmetric log: linear up to the
# smallest cost, or up to the largest divided by the second factor.
_WIDE_SPREAD, _MOST_SPREAD = 100.0, 1e6

# What an alteration costs, the most important first, and its words.
COSTS = (
    ("held_out_error", "held-out error"),
    ("training_error", "training error"),
    ("output_change", "relative change of the outputs"),
)
Series = Mapping[str, Sequence[tuple[float, float]]]


def convergence_chart(results: Mapping[str, Reconstruction]) -> Chart:
    """How the relative residual of each attack fell with its feature passes, and where rounding ends it."""
    with sheet() as (drawing, axis):
        ends = []
        for index, (name, result) in enumerate(results.items()):
            passes, residuals = _progress(result)
            colour = COLOURS["accent"] if len(results) == 1 else OTHERS[index % len(OTHERS)]
            label = printable(name)
            marker = "o" if len(passes) == 1 else ""
            axis.plot(passes, residuals, color=colour, linewidth=1.6, marker=marker, label=label)
            ends.append(f"{label} ends at {result.certificate.residual:.2g} after {result.passes:,.0f} passes.")
        floors = [result.certificate.floor for result in results.values()]
        floor = max((each for each in floors if math.isfinite(each)), default=_SMALLEST)
        axis.axhline(floor, color=COLOURS["muted"], linestyle="--", linewidth=1.2, label="what rounding alone leaves")
        axis.set(xscale="log", yscale="log", xlabel="feature passes", ylabel="relative residual")
        powers(axis.xaxis)
        powers(axis.yaxis)
        legend_below(drawing, axis)
        return chart(
            drawing,
            title="How the attack converged" if len(results) == 1 else "How the attacks converged",
            description=f"Relative residual against feature passes, both on log axes. {' '.join(ends)} "
            f"Rounding alone would leave {floor:.1g}.",
            caption="The residual is what the recovered samples do not explain of the weights. One feature pass "
            "applies the model's body to all samples once. Jumps up are new starts.",
        )


def error_bars_chart(result: Reconstruction, score: Score | None = None) -> Chart:
    """The error that the certificate expects of every sample, and the measured one beside it where it is known."""
    bars = result.certificate.predicted_errors
    order = sorted(range(len(bars)), key=lambda row: bars[row])
    places = {row: place for place, row in enumerate(order, start=1)}
    measured: dict[int, float] = {}
    if score is not None:
        measured = dict(zip((match.row for match in score.matches), score.claimed_errors, strict=True))
    with sheet() as (drawing, axis):
        expected = {places[row]: max(bars[row], _SMALLEST) for row in order}
        style = {"color": COLOURS["accent"], "linestyle": "none", "marker": "_", "markeredgewidth": 2}
        axis.plot(*zip(*expected.items(), strict=True), label="expected by the certificate", markersize=9, **style)
        if measured:
            found = {places[row]: max(error, _SMALLEST) for row, error in measured.items()}
            lows = [expected[place] for place in found]
            axis.vlines(list(found), lows, list(found.values()), COLOURS["line"], linewidth=1.0, zorder=1)
            style = {"color": COLOURS["other-2"], "linestyle": "none", "marker": "o"}
            axis.plot(*zip(*found.items(), strict=True), label="measured against the truth", markersize=4.5, **style)
        axis.axhline(RECOVERED_BELOW, color=COLOURS["muted"], linestyle="--", label="recovered below this")
        axis.axhline(EXACT_BELOW, color=COLOURS["muted"], linestyle=":", label="exact below this")
        axis.set(yscale="log", xlabel="sample, the most certain first", ylabel="relative error")
        powers(axis.yaxis)
        axis.xaxis.get_major_locator().set_params(integer=True)
        legend_below(drawing, axis, columns=2)
        description = "The error that the certificate expects of each sample, sorted, on a log axis."
        caption = "Error bars are computed without the training data."
        if measured:
            within = sum(error <= bars[row] for row, error in measured.items())
            covered = sum(error <= _HONEST * bars[row] for row, error in measured.items())
            caption += (
                f" Of {len(measured):,} measured errors {within:,} are at most as large as expected, "
                f"{covered:,} at most {_HONEST} times."
            )
        return chart(
            drawing,
            title="Are the error bars honest?" if measured else "Error bars",
            description=f"{description} {caption}",
            caption=caption,
        )


def cost_measured(outcomes: Sequence[Outcome]) -> tuple[str, str] | None:
    """The name and the words of the first cost that differs between outcomes, else of the first that was measured.

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
    """Recovered samples out of all; None if that was not measured."""
    if outcome.recovered is None or not outcome.num_samples:
        return None
    return outcome.recovered / outcome.num_samples


def defences_chart(outcomes: Sequence[Outcome]) -> Chart | None:
    """The share of samples still recovered from altered copies against the cost of each; None without a cost."""
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
    families = list(dict.fromkeys(each.defence for each, _, _ in points if each.defence != NONE))
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
        for _, value, share in (point for point in points if point[0].defence == NONE):
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


def _progress(result: Reconstruction) -> tuple[list[float], list[float]]:
    """Passes and relative residuals that a log axis can show; the end alone if the attack kept no history."""
    # The loss of an unmixing attack is the share of columns that is missing, no residual.
    history = {} if "zero_shares" in result.evidence else result.history
    pairs = [
        (max(passes, 1.0), math.sqrt(loss))
        for passes, loss in zip(history.get("passes", ()), history.get("loss", ()), strict=False)
        if math.isfinite(passes) and math.isfinite(loss) and loss > 0
    ]
    residual = result.certificate.residual
    if math.isfinite(residual) or not pairs:
        pairs.append((max(result.passes, 1.0), max(residual, _SMALLEST) if math.isfinite(residual) else 1.0))
    passes, residuals = zip(*pairs, strict=True)
    return list(passes), list(residuals)


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
    listed = "; ".join(
        f"{printable(name)}: " + ", ".join(f"{value:.2g} at {ratio:.3g}" for ratio, value in sorted(points)[:12])
        for name, points in list(series.items())[:6]
    )
    return chart(drawing, title=title, description=f"The {words} by p/dn. {listed}.")


def _scale_costs(axis: Any, costs: Sequence[float]) -> None:
    """A symmetric log axis if costs differ by orders of magnitude: linear near zero, powers of ten beyond."""
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
    return "as it is" if outcome.defence == NONE else printable(outcome.setting, 28)


def _name(outcome: Outcome) -> str:
    if outcome.defence == NONE:
        return "the model as it is"
    return outcome.setting if outcome.setting.startswith(outcome.defence) else f"{outcome.defence}, {outcome.setting}"
