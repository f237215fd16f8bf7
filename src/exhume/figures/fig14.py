"""Figure 14: the law on Tiny-ImageNet, with the residual of the true features, and its pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exhume.figures.base import Figure, Scale
from exhume.figures.fig05 import GALLERY_LAPTOP, GALLERY_PAPER, draw_pictures, pictures
from exhume.figures.findings import method_name, recoveries, span_inclusion, thresholds
from exhume.figures.panels import threshold_drawing
from exhume.figures.protocols import TINY_IMAGENET, below_and_above, descent, exact

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.record import Record

_CURVE_LAPTOP = below_and_above(
    "Tiny-ImageNet 8x8, n = 10",
    {**TINY_IMAGENET, "per_class": 5, "size": 8},
    [5, 10, 50],
    [0.1, 0.5, 1, 2, 4, 10],
    [descent(1000), exact(4000)],
    seeds=3,
)
_CURVE_PAPER = below_and_above(
    "Tiny-ImageNet, n = 20 curve",
    {**TINY_IMAGENET, "per_class": 10},
    [10, 20, 1000],
    [0.1, 0.5, 1, 2, 5, 10],
    [descent(), exact()],
    seeds=10,
)
_plot = threshold_drawing(
    lambda record: "random features on Tiny-ImageNet", show=("error", "training_loss", "orthogonal_residual")
)


def _curve(records: Sequence[Record]) -> list[Record]:
    small = [record for record in records if record.cell.data.options.get("size") == 8]
    return small or list(records)


def _draw(records: Sequence[Record]) -> Drawing:
    return _plot(_curve(records))


def _findings(records: Sequence[Record]) -> str:
    curve = _curve(records)
    return f"{thresholds(curve)} {span_inclusion(curve)} Pictures: {recoveries(pictures(records), method_name)}"


FIGURE = Figure(
    name="fig14",
    title="thresholds on Tiny-ImageNet",
    shows="Training loss, reconstruction error and residual of the true features against p on Tiny-ImageNet, and the "
    "images of Figure 5.",
    claim="The same two thresholds as on CIFAR-10, and the residual falls together with the error past p = dn.",
    laptop=Scale(
        "Tiny-ImageNet classes 2 and 116; curve: 8x8 (d = 192), n = 10, p from 5 to 10dn, 3 seeds, descent of at most "
        "1,000 steps, exact of at most 4,000 passes; pictures: those of Figure 5",
        (*_CURVE_LAPTOP, GALLERY_LAPTOP),
        5,
    ),
    paper=Scale(
        "Tiny-ImageNet classes 2 and 116 (d = 12,288), n = 20, p from 10 to 10dn, 10 seeds, descent with step 8000 "
        "until its loss is 1e-7",
        (*_CURVE_PAPER, GALLERY_PAPER),
        60_000,
    ),
    draw=_draw,
    gallery=draw_pictures,
    findings=_findings,
    pictures_of="Tiny-ImageNet",
)
