"""Charts of one model: its place on the law's axis, how the attack converged, and its error bars beside the truth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from exhume.certificate import EXACT_BELOW
from exhume.law import GREY_ZONE, LABELS_ONLY, NOT_EVEN_LABELS, PRACTICAL_RATIO, RECONSTRUCTIBLE, Forecast
from exhume.reconstruction import Reconstruction
from exhume.report.content import Chart
from exhume.report.findings import claimed_error
from exhume.report.svg import COLOURS, OTHERS, SMALL, chart, legend_below, number, powers, printable, sheet
from exhume.scoring import RECOVERED_BELOW, Score

# Inches of the law's chart: a band of zones, lines of words above it for the walls, one below for each model.
_LAW_WIDTH, _LAW_LINE = 7.0, 0.24
_BAND, _WALLS = 3.2, 3  # heights in lines
_ZONES = (
    (NOT_EVEN_LABELS, "ok"),
    (LABELS_ONLY, "ok"),
    (GREY_ZONE, "partial"),
    (RECONSTRUCTIBLE, "leak"),
)
_NARROWEST, _WIDE = 0.06, 0.2  # share of the axis from which a zone is named in it, and in one line
_NAMES_AT, _MARK_UP_TO = 0.66, 0.3  # heights in the band: names of zones stand above the marks of models
_ROOM_FOR_WORDS = 0.42  # share of the axis to the right of the last wall
_HONEST = 3  # an error bar is a typical error, not the largest: up to so many times it an error is as expected
_SMALLEST = 1e-16  # errors below are drawn here


def law_chart(forecast: Forecast, also: Sequence[tuple[str, Forecast]] = (), name: str = "this model") -> Chart:
    """Where a model stands on the law's axis p / (d n), with the walls and the zones between them.

    Args:
        forecast: of the model; its sizes set the walls.
        also: others to mark on the same axis, by name.
        name: what the model is called.
    """
    scale = forecast.ratio / forecast.num_parameters
    walls = [
        forecast.num_samples * forecast.num_outputs * scale,
        forecast.smallest_parameters * scale,
        forecast.comfortable_parameters * scale,
    ]
    models = [(name, forecast.ratio), *((label, each.ratio) for label, each in also)]
    low, high = _limits(walls, [ratio for _, ratio in models])
    lines = _BAND + _WALLS + 0.6 + len(models)
    bottom = -len(models) - 0.4
    with sheet((_LAW_WIDTH, _LAW_LINE * (lines + 3))) as (drawing, axis):
        axis.set(xscale="log", xlim=(low, high), ylim=(bottom, _BAND + _WALLS + 0.4), yticks=[])
        axis.grid(visible=False)
        axis.spines[["left"]].set_visible(False)
        axis.set_xlabel("p / dn: weights of the head per number in the training data")
        powers(axis.xaxis)
        _draw_zones(axis, walls, low, high)
        _draw_walls(axis, walls, forecast)
        for line, (label, ratio) in enumerate(models):
            _draw_model(axis, label, ratio, -0.75 - line, low, high, COLOURS["accent"] if line == 0 else OTHERS[0])
        others = "".join(f" {printable(label)} stands at {number(ratio)}." for label, ratio in models[1:])
        return chart(
            drawing,
            title="Where the law puts this model",
            description=(
                f"{printable(name)} stands at p/dn = {number(forecast.ratio)}, in the zone called {forecast.verdict}."
                f"{others} Labels can be fitted from {walls[0]:.3g} on, samples are determined beyond {walls[1]:.3g}, "
                f"and reconstruction is dependable from about {walls[2]:.3g} on."
            ),
            caption=forecast.sentence,
        )


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
    measured = {match.row: claimed_error(match, result) for match in score.matches} if score is not None else {}
    with sheet() as (drawing, axis):
        for row, error in measured.items():
            expected, found = max(bars[row], _SMALLEST), max(error, _SMALLEST)
            axis.plot([places[row]] * 2, [expected, found], color=COLOURS["line"], linewidth=1.0, zorder=1)
        axis.plot(
            range(1, len(order) + 1),
            [max(bars[row], _SMALLEST) for row in order],
            linestyle="none",
            marker="_",
            markersize=9,
            markeredgewidth=2,
            color=COLOURS["accent"],
            label="expected by the certificate",
        )
        if measured:
            axis.plot(
                [places[row] for row in measured],
                [max(error, _SMALLEST) for error in measured.values()],
                linestyle="none",
                marker="o",
                markersize=4.5,
                color=COLOURS["other-2"],
                label="measured against the truth",
            )
        for level, label in ((RECOVERED_BELOW, "recovered below this"), (EXACT_BELOW, "exact below this")):
            axis.axhline(
                level, color=COLOURS["muted"], linestyle="--" if level == RECOVERED_BELOW else ":", label=label
            )
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


def _limits(walls: Sequence[float], ratios: Sequence[float]) -> tuple[float, float]:
    """Ends of the axis: everything in it, a zone on either side, room for words to the right of the last wall."""
    low = min(walls[0] / 12, min(ratios) / 3)
    span = math.log(walls[-1] / low)
    room = span * _ROOM_FOR_WORDS / (1 - _ROOM_FOR_WORDS)
    return low, max(walls[-1] * math.exp(room), max(ratios) * 3)


def _draw_zones(axis: Any, walls: Sequence[float], low: float, high: float) -> None:
    edges = [low, *walls, high]
    for (zone, role), left, right in zip(_ZONES, edges, edges[1:], strict=False):
        if right <= left:
            continue
        axis.fill_between([left, right], 0, _BAND, color=COLOURS[role], alpha=0.12 if zone == NOT_EVEN_LABELS else 0.26)
        share = math.log(right / left) / math.log(high / low)
        if share > _NARROWEST:
            head, _, last = zone.rpartition(" ")
            words = zone if share > _WIDE or not head else f"{head}\n{last}"
            place = (math.sqrt(left * right), _NAMES_AT * _BAND)
            axis.text(*place, words, ha="center", va="center", fontsize=SMALL + 1, linespacing=1.1)


def _draw_walls(axis: Any, walls: Sequence[float], forecast: Forecast) -> None:
    labels = f"{forecast.num_samples * forecast.num_outputs:,}"
    texts = (
        f"labels fit: p = nk = {labels}",
        f"equations exceed unknowns: p = {forecast.smallest_parameters:,}",
        f"{PRACTICAL_RATIO:g} equations per unknown: p = {forecast.comfortable_parameters:,}",
    )
    # The first wall's words stand highest: words run to the right, above the walls that end lower.
    for line, (place, words) in enumerate(zip(walls, texts, strict=True)):
        top = _BAND + _WALLS - line - 0.15
        axis.plot([place, place], [0, top], color=COLOURS["ink"], linewidth=1.2, solid_capstyle="butt")
        axis.annotate(words, (place, top), xytext=(4, 0), textcoords="offset points", va="top", fontsize=SMALL)


def _draw_model(axis: Any, label: str, ratio: float, line: float, low: float, high: float, colour: str) -> None:
    axis.plot([ratio, ratio], [line, _MARK_UP_TO * _BAND], color=colour, linewidth=1.8, zorder=4)
    axis.plot([ratio], [line], marker="D", color=colour, markersize=6, zorder=5)
    right = math.log(ratio / low) / math.log(high / low) > 0.6
    axis.annotate(
        f"{printable(label, 40)}: p/dn = {number(ratio)}",
        (ratio, line),
        xytext=(-8 if right else 8, 0),
        textcoords="offset points",
        ha="right" if right else "left",
        va="center",
        fontweight="bold",
        fontsize=SMALL + 0.5,
    )


def _progress(result: Reconstruction) -> tuple[list[float], list[float]]:
    """Passes and relative residuals that a log axis can show; the end alone if the attack kept no history."""
    history = result.history
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
