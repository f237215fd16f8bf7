"""Figure 1: CIFAR-10 from random features. Training loss and reconstruction error against p, and the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exhume.figures import curves, galleries, style
from exhume.figures.base import Figure, Scale
from exhume.figures.findings import method_name, recoveries, thresholds
from exhume.figures.protocols import FROGS_AND_TRUCKS, below_and_above, descent, exact
from exhume.figures.statistics import widest
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.record import Record

_SMALL = {**FROGS_AND_TRUCKS, "per_class": 10, "size": 8}
_FULL = {**FROGS_AND_TRUCKS, "per_class": 50}

CURVE_LAPTOP = below_and_above(
    "CIFAR-10 8x8, n = 20",
    _SMALL,
    [10, 20, 100],
    [0.1, 0.5, 1, 2, 4, 10],
    [descent(1000), exact(4000)],
    seeds=3,
)
CURVE_PAPER = below_and_above(
    "CIFAR-10, n = 100", _FULL, [50, 100, 1000, 10_000], [0.1, 0.5, 1, 2, 5, 10], [descent(), exact()], seeds=4
)
# The pictures of Figures 1, 4 and 10: the same data and width, other seeds and activations.
PICTURES = {**FROGS_AND_TRUCKS, "per_class": 10, "size": 16}
GALLERY_LAPTOP = Grid(name="CIFAR-10 16x16, n = 20", data=PICTURES, ratio=4, attack=[descent(300), exact()], seeds=[0])


def _curve(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.cell.data.options.get("size") != 16]


def _draw(records: Sequence[Record]) -> Drawing:
    sheet, (axis,) = style.figure()
    curves.threshold_panel(axis, _curve(records), title="random features on CIFAR-10")
    style.legend_below(sheet, [axis])
    return sheet


def _gallery(records: Sequence[Record]) -> Drawing:
    pictures = [record for record in records if record not in _curve(records)] or list(records)
    return galleries.gallery(widest(pictures), title="CIFAR-10 from random features: truth, paper's attack, ours")


def _findings(records: Sequence[Record]) -> str:
    pictures = [record for record in records if record not in _curve(records)]
    gallery = f" Pictures at 16x16, p = 4dn: {recoveries(pictures, method_name)}" if pictures else ""
    return thresholds(_curve(records)) + gallery


FIGURE = Figure(
    name="fig1",
    title="thresholds for fitting labels and for reconstruction, CIFAR-10",
    shows="Training loss and reconstruction error of a random-features model against p, and the recovered images.",
    claim="Labels are fitted from p = n on; the reconstruction error falls when p passes dn, and at p = 10dn all 100 "
    "images are recovered.",
    laptop=Scale(
        "CIFAR-10 frogs and trucks; curve: area-averaged to 8x8 (d = 192), n = 20, p from 10 to 10dn, 3 seeds, descent "
        "of at most 1,000 steps, exact of at most 4,000 passes; pictures: 16x16 (d = 768), n = 20, p = 4dn, 1 seed, "
        "descent of at most 300 steps",
        (*CURVE_LAPTOP, GALLERY_LAPTOP),
        5,
    ),
    paper=Scale(
        "CIFAR-10 frogs and trucks, 32x32 (d = 3072), n = 100, p from 50 to 10dn = 3,072,000, 4 seeds, descent until "
        "its loss is 1e-7; pictures at p = 10dn",
        CURVE_PAPER,
        20_000,
    ),
    draw=_draw,
    gallery=_gallery,
    findings=_findings,
    pictures_of="CIFAR-10",
)
