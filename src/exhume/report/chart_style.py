"""Drawings that take the colours of the page: matplotlib figures as SVG markup with CSS variables for colours.

Figures are drawn with placeholder colours, one for each role, which become `var(--role)` in the markup. The markup is
the same on every run and scales with the page; no other drawing on the page has its ids.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

matplotlib.use("Agg")
from matplotlib.ticker import LogLocator, NullLocator

from exhume.report.content import Chart

# Placeholder colours, which no drawing uses otherwise, by the CSS variable that replaces them.
_ROLES = ("ink", "muted", "accent", "line", "leak", "ok", "partial", *(f"other-{index}" for index in range(1, 6)))
COLOURS = {role: f"#0a0b{index:02x}" for index, role in enumerate(_ROLES, start=16)}
OTHERS = tuple(COLOURS[f"other-{index}"] for index in range(1, 6))
_SIZE = (7.0, 3.6)  # inches of 72 points: letters of 9 points are 12.5 pixels high where the page is 700 wide
SMALL = 8.5
_LEGEND_LINE, _LETTER, _HANDLE = 0.22, 0.07, 0.55  # inches of a legend's line, a letter, and what stands before it

_SETTINGS: Any = {
    "svg.fonttype": "none",
    "font.size": 9.5,
    "text.parse_math": False,
    "text.color": COLOURS["ink"],
    "axes.labelcolor": COLOURS["ink"],
    "axes.edgecolor": COLOURS["muted"],
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.labelcolor": COLOURS["ink"],
    "ytick.labelcolor": COLOURS["ink"],
    "grid.color": COLOURS["line"],
    "legend.labelcolor": COLOURS["ink"],
}
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]+")


@contextmanager
def sheet(size: tuple[float, float] = _SIZE) -> Iterator[tuple[Figure, Any]]:
    """A figure and its axes, to be drawn on and turned into a chart within the block."""
    with matplotlib.rc_context(_SETTINGS):
        drawing = Figure(figsize=size, layout="constrained")
        axis = drawing.subplots()
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(linewidth=0.6)
        axis.set_axisbelow(True)
        drawing.patch.set_visible(False)
        axis.patch.set_visible(False)
        yield drawing, axis


def chart(drawing: Figure, *, title: str, description: str, caption: str = "") -> Chart:
    """The figure as a chart of a page."""
    return Chart(title, _markup(drawing, title, description), description, caption)


def printable(text: str, most: int = 60) -> str:
    """A text on one line, of letters that XML allows, shortened if it is long."""
    plain = _UNPRINTABLE.sub(" ", text).strip()
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def legend_below(drawing: Figure, *axes: Any, columns: int | None = None) -> None:
    """Draws one legend below all axes, each label once, in as many columns as fit; the figure grows by its height."""
    entries = [entry for axis in axes for entry in zip(*reversed(axis.get_legend_handles_labels()), strict=True)]
    handles = dict(reversed(entries))  # of equal labels the first one stays
    labels = list(dict.fromkeys(label for label, _ in entries))
    if not labels:
        return
    fitting = max(1, int(drawing.get_figwidth() / (_LETTER * max(map(len, labels)) + _HANDLE)))
    columns = min(len(labels), columns or fitting)
    drawing.set_figheight(drawing.get_figheight() + _LEGEND_LINE * -(-len(labels) // columns))
    shown = [handles[label] for label in labels]
    drawing.legend(shown, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=SMALL)


# Numbers from here on are written out; an axis of fewer decades may hold fewer than two powers of ten.
_PLAIN_FROM, _SHORT_DECADES = 2e-3, 1.5


def number(value: float) -> str:
    """A number of three digits, or a whole one with all of its own."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.3g}"


def powers(axis: Any) -> None:
    """Ticks of a log axis at powers of ten, few enough to be read; a short axis has 2 and 5 too."""
    low, high = axis.get_view_interval()
    is_short = low > _PLAIN_FROM and high < 10**_SHORT_DECADES * low
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if is_short else (1,), numticks=8))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: power_of_ten(value))


def power_of_ten(value: float) -> str:
    """A power of ten, or zero, as a tick says it."""
    if value == 0 or _PLAIN_FROM < value < 1e6:
        return f"{value:,g}"
    return f"10{str(round(math.log10(value))).translate(_SUPERSCRIPTS)}" if value > 0 else ""


def _markup(drawing: Figure, title: str, description: str) -> str:
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": title}):
        drawing.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue().decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # A style element would hold for the whole page, and the page's policy forbids it; what it says is inherited.
    text = re.sub(r"\s*<style[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    for role, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{role})")
    own = "c" + hashlib.sha256(f"{title}\0{text}".encode()).hexdigest()[:10]
    text = re.sub(r'\bid="', f'id="{own}-', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{own}-", text)
    head, _, rest = text.partition(">")
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    head += f' role="img" aria-labelledby="{own}-title {own}-desc" class="chart" stroke-linejoin="round"'
    words = (
        f'<title id="{own}-title">{escape(printable(title, 200))}</title>'
        f'<desc id="{own}-desc">{escape(printable(description, 2000))}</desc>'
    )
    return f"{head}>{words}{rest}".strip()


# Labels are not placed by adjustText: on six random charts of 21 points each its labels overlapped, and these did not.
# Where a label may stand: an offset from its point in text points, and which of its corners that is.
_NEAR, _FAR, _FURTHER = 9, 18, 30
_PLACES = tuple(
    (right * away, up * away, "left" if right > 0 else "right" if right < 0 else "center")
    for away in (_NEAR, _FAR, _FURTHER)
    for right, up in ((1, 0), (-1, 0), (0, 1), (0, -1), (0.7, 0.7), (0.7, -0.7), (-0.7, 0.7), (-0.7, -0.7))
)
_SAME = 3.0  # pixels within which points share a label
_POINT = 7.0  # pixels that a point covers on each side
_GAP = 4.0  # pixels between labels
_LETTERS = 36  # in a line of a shared label


def place_labels(drawing: Figure, axis: Any, points: Sequence[tuple[float, float, str]]) -> None:
    """Writes a label beside each point (x, y, words): greedily at the first of 24 places where it covers nothing.

    Points that coincide share a label. A label that finds no free place stands where it covers least.
    """
    drawing.draw_without_rendering()
    shared: list[tuple[float, float, list[str]]] = []
    for x, y, words in points:
        at = axis.transData.transform((x, y))
        near = next((each for each in shared if max(abs(axis.transData.transform(each[:2]) - at)) < _SAME), None)
        if near is None:
            shared.append((x, y, [words]))
        elif words not in near[2]:
            near[2].append(words)
    spots = [axis.transData.transform((x, y)) for x, y, _ in shared]
    taken = [Bbox.from_extents(*(at - _POINT), *(at + _POINT)) for at in spots]
    inside = axis.get_window_extent()
    for x, y, several in shared:
        text = axis.annotate(
            textwrap.fill(", ".join(several), _LETTERS),
            (x, y),
            xytext=(0, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL - 0.5,
            color=COLOURS["ink"],
        )
        best = min(_PLACES, key=lambda place: _covered(_moved(text, place), taken, inside))
        taken.append(_moved(text, best).padded(_GAP))


def _moved(text: Any, place: tuple[float, float, str]) -> Bbox:
    right, up, alignment = place
    text.set_position((right, up))
    text.set_horizontalalignment(alignment)
    return Bbox(text.get_window_extent())


def _covered(box: Bbox, taken: Sequence[Bbox], inside: Bbox) -> float:
    """The area of a label, in square pixels, that overlaps others or lies outside the axes."""
    outside = box.width * box.height - _shared(box, inside)
    return sum(_shared(box, other) for other in taken) + max(outside, 0.0)


def _shared(one: Bbox, other: Bbox) -> float:
    both = Bbox.intersection(one, other)
    return 0.0 if both is None else both.width * both.height
