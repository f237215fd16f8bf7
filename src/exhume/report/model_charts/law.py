"""The chart of the law: where models stand on the axis p / (d n), with the walls and the zones between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from exhume.law import (
    GREY_ZONE,
    LABELS_ONLY,
    NOT_EVEN_LABELS,
    PER_SAMPLE,
    PRACTICAL_RATIO,
    RECONSTRUCTIBLE,
    Forecast,
)
from exhume.report.chart_style import COLOURS, SMALL, chart, number, powers, sheet
from exhume.report.content import Chart

# Inches of the law's chart: a band of zones, lines of words above it for the walls, one below for the model.
_LAW_WIDTH, _LAW_LINE = 7.0, 0.24
_BAND, _WALLS = 3.2, 3  # heights in lines
_ZONES = ((NOT_EVEN_LABELS, "ok"), (LABELS_ONLY, "ok"), (GREY_ZONE, "partial"), (RECONSTRUCTIBLE, "leak"))
_NARROWEST, _WIDE = 0.06, 0.2  # share of the axis from which a zone is named in it, and in one line
_NAMES_AT, _MARK_UP_TO = 0.66, 0.3  # heights in the band: names of zones stand above the model's mark
_SPACE_FOR_WORDS = 0.42  # share of the axis to the right of the last wall


def law_chart(forecast: Forecast) -> Chart:
    """Where a model stands on the law's axis p / (d n), with the walls and the zones between them."""
    unit = "p/dn" if forecast.subspace_dim is None else "p/rn"
    place = f"{unit} = {number(forecast.ratio)}"
    scale = forecast.ratio / forecast.num_parameters
    walls = [
        forecast.num_samples * forecast.num_outputs * scale,
        forecast.smallest_parameters * scale,
        forecast.comfortable_parameters * scale,
    ]
    low, high = _limits(walls, forecast.ratio)
    with sheet((_LAW_WIDTH, _LAW_LINE * (_BAND + _WALLS + 4.6))) as (drawing, axis):
        axis.set(xscale="log", xlim=(low, high), ylim=(-1.4, _BAND + _WALLS + 0.4), yticks=[])
        axis.grid(visible=False)
        axis.spines[["left"]].set_visible(False)
        axis.set_xlabel(f"{unit}: weights of the head per number in the training data")
        powers(axis.xaxis)
        _draw_zones(axis, walls, low, high)
        _draw_walls(axis, walls, forecast)
        _draw_model(axis, forecast.ratio, f"this model: {place}")
        return chart(
            drawing,
            title="Where the law puts this model",
            description=(
                f"this model stands at {place}, in the zone called {forecast.verdict}. "
                f"Labels can be fitted from {walls[0]:.3g} on, samples are determined beyond {walls[1]:.3g}, "
                f"and reconstruction is dependable from about {walls[2]:.3g} on."
            ),
            caption=forecast.sentence,
        )


def _limits(walls: Sequence[float], ratio: float) -> tuple[float, float]:
    """Ends of the axis: everything in it, a zone on either side, and space for words to the right of the last wall."""
    low = min(walls[0] / 12, ratio / 3)
    span = math.log(walls[-1] / low)
    space = span * _SPACE_FOR_WORDS / (1 - _SPACE_FOR_WORDS)
    return low, max(walls[-1] * math.exp(space), ratio * 3)


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
    of_each = " of each sample" if forecast.binding == PER_SAMPLE else ""
    texts = (
        f"labels fit: p = nk = {labels}",
        f"equations exceed unknowns{of_each}: p = {forecast.smallest_parameters:,}",
        f"{PRACTICAL_RATIO:g} equations per unknown{of_each}: p = {forecast.comfortable_parameters:,}",
    )
    # The first wall's words stand highest: words run to the right, above the walls that end lower.
    for line, (place, words) in enumerate(zip(walls, texts, strict=True)):
        top = _BAND + _WALLS - line - 0.15
        ink = COLOURS["ink"]
        axis.plot([place, place], [0, top], color=ink, linewidth=1.2, solid_capstyle="butt", gid=f"wall-{line}")
        axis.annotate(words, (place, top), xytext=(4, 0), textcoords="offset points", va="top", fontsize=SMALL)


def _draw_model(axis: Any, ratio: float, words: str) -> None:
    (low, high), line = axis.get_xlim(), -0.75
    colour = COLOURS["accent"]
    axis.plot([ratio, ratio], [line, _MARK_UP_TO * _BAND], color=colour, linewidth=1.8, zorder=4, gid="model-0")
    axis.plot([ratio], [line], marker="D", color=colour, markersize=6, zorder=5)
    right = math.log(ratio / low) / math.log(high / low) > 0.6
    axis.annotate(
        words,
        (ratio, line),
        xytext=(-8 if right else 8, 0),
        textcoords="offset points",
        ha="right" if right else "left",
        va="center",
        fontweight="bold",
        fontsize=SMALL + 0.5,
    )
