"""Maps over the number of samples and of parameters, and the errors of single samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import cycle, pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from matplotlib import patheffects
from matplotlib.colors import Normalize

from exhume.research.paper_figures.galleries import load_pictures, with_pictures
from exhume.research.paper_figures.panels import FLOOR, MARKERS
from exhume.research.paper_figures.statistics import done, grouped, method_name, method_of, outcome_of
from exhume.research.paper_figures.style import SMALL, USUAL, colour_of, tones

if TYPE_CHECKING:
    from exhume.sweep.store import Record

_LEAST_STEP = 1.25  # half the height of a field that has no neighbour is its square root
_COLOURS = "cividis"


def phase_panel(axis: Any, records: Sequence[Record], *, title: str = "") -> None:
    """Median errors over (n, p), one field for each pair that was run, with the lines p = n and p = d n."""
    fields = median_errors(records)
    numbers = sorted({n for n, _ in fields})
    widths = dict(zip(numbers, _edges(numbers), strict=True))
    limits = Normalize(math.log10(FLOOR), 0)
    mesh = None
    for n in numbers:
        column = sorted((p, shown) for (samples, p), shown in fields.items() if samples == n)
        heights = _edges([p for p, _ in column])
        left, right = widths[n]
        for (_, shown), (low, high) in zip(column, heights, strict=True):
            mesh = axis.pcolormesh(
                [left, right], [low, high], [[shown]], cmap=_COLOURS, norm=limits, edgecolors="white", linewidth=0.3
            )
    axis.set(xscale="log", yscale="log", xlabel="training samples n", ylabel="number of parameters p")
    axis.grid(visible=False)
    axis.set_title(title, fontsize=USUAL)
    if mesh is None:
        return
    _lines(axis, records, [widths[numbers[0]][0], widths[numbers[-1]][1]])
    axis.set_xticks(numbers, [str(n) for n in numbers])
    axis.set_xticks([], minor=True)
    axis.figure.colorbar(mesh, ax=axis, label="log10 of the median error")


def median_errors(records: Sequence[Record]) -> dict[tuple[int, int], float]:
    """log10 of the median claimed error for each (n, p)."""
    groups = grouped(done(records), lambda record: (outcome_of(record).num_samples, outcome_of(record).num_parameters))
    errors = {place: median(outcome_of(each).claimed_error for each in members) for place, members in groups.items()}
    return {place: math.log10(max(error, FLOOR)) for place, error in errors.items()}


def samples_panel(
    axis: Any, records: Sequence[Record], *, title: str = "", name: Callable[[Record], str] | None = None
) -> None:
    """The error of every sample, up to sign, sorted, with one line per cell: the numbers of a gallery.

    Args:
        name: distinguishes cells of a method, by tones and markers; without it seeds look alike.
    """
    for method, mine in grouped(with_pictures(records), method_of).items():
        named = grouped(mine, name or method_name)
        looks = zip(named.items(), tones(colour_of(method), len(named)), cycle(MARKERS), strict=False)
        for (label, members), colour, marker in looks:
            for record in members:
                errors = load_pictures(record)["errors"].sort().values.clamp(min=FLOOR)
                places, style = range(1, len(errors) + 1), {"markersize": 3.5, "linewidth": 1.2}
                axis.plot(places, errors, marker=marker, color=colour, label=label, **style)
    axis.set(yscale="log", ylim=(FLOOR / 2, 3), xlabel="samples, best first", ylabel="error of the sample, up to sign")
    axis.set_title(title, fontsize=USUAL)


def _edges(places: Sequence[float]) -> list[tuple[float, float]]:
    """The sides of fields around places, halfway to their neighbours on a log axis."""
    middles = [math.sqrt(first * second) for first, second in pairwise(places)]
    if not middles:
        reach = math.sqrt(_LEAST_STEP)
        return [(place / reach, place * reach) for place in places]
    sides = [places[0] ** 2 / middles[0], *middles, places[-1] ** 2 / middles[-1]]
    return list(pairwise(sides))


def _lines(axis: Any, records: Sequence[Record], between: Sequence[float]) -> None:
    """Draws p = n and p = d n; the map keeps its limits."""
    limits = axis.get_ylim()
    halo = [patheffects.withStroke(linewidth=3, foreground="white")]
    walls = [
        (f"p = dn, d = {dim}", dim, "--") for dim in sorted({outcome_of(each).input_dim for each in done(records)})
    ]
    for name, factor, style in [("p = n", 1, ":"), *walls]:
        heights = [factor * n for n in between]
        axis.plot(between, heights, style, color="black", linewidth=1.6, path_effects=halo, label=name)
    axis.set_ylim(min(limits[0], between[0] / 1.5), limits[1])
    axis.legend(loc="lower right", fontsize=SMALL, framealpha=0.9)
