"""Labels beside the points of a chart, where they cover neither each other nor a point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from exhume.report.svg import COLOURS, SMALL

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
_LETTERS = 34  # in a shared label


def place_labels(drawing: Figure, axis: Any, points: Sequence[tuple[float, float, str]]) -> None:
    """Writes a label beside each point (x, y, words), greedily at the first place that is free; points that coincide
    share one. What finds no free place stands where it covers least."""
    drawing.draw_without_rendering()
    shared: list[tuple[float, float, list[str]]] = []
    for x, y, words in points:
        at = axis.transData.transform((x, y))
        near = next((each for each in shared if max(abs(axis.transData.transform(each[:2]) - at)) < _SAME), None)
        if near is None:
            shared.append((x, y, [words]))
        elif words not in near[2]:
            near[2].append(words)
    taken = [_around(axis.transData.transform((x, y))) for x, y, _ in shared]
    inside = axis.get_window_extent()
    for x, y, several in shared:
        text = axis.annotate(
            _joined(several),
            (x, y),
            xytext=(0, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL - 0.5,
            color=COLOURS["ink"],
        )
        best: tuple[float, tuple[float, float, str]] | None = None
        for place in _PLACES:
            covered = _covered(_moved(text, place), taken, inside)
            if best is None or covered < best[0]:
                best = covered, place
            if covered == 0:
                break
        assert best is not None
        taken.append(_moved(text, best[1]).padded(_GAP))


def _moved(text: Any, place: tuple[float, float, str]) -> Bbox:
    right, up, alignment = place
    text.set_position((right, up))
    text.set_horizontalalignment(alignment)
    return Bbox(text.get_window_extent())


def _covered(box: Bbox, taken: Sequence[Bbox], inside: Bbox) -> float:
    """Square pixels of others under a box, and of itself outside the axes."""
    outside = box.width * box.height - _shared(box, inside)
    return sum(_shared(box, other) for other in taken) + max(outside, 0.0)


def _shared(one: Bbox, other: Bbox) -> float:
    both = Bbox.intersection(one, other)
    return 0.0 if both is None else both.width * both.height


def _around(at: Any) -> Bbox:
    return Bbox.from_extents(at[0] - _POINT, at[1] - _POINT, at[0] + _POINT, at[1] + _POINT)


def _joined(words: Sequence[str]) -> str:
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 2 <= _LETTERS:
            lines[-1] += f", {word}"
        else:
            lines[-1] += ","
            lines.append(word)
    return "\n".join(lines)
