"""Figure 5: images of higher dimension, Tiny-ImageNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exhume.figures import galleries
from exhume.figures.base import Figure, Scale
from exhume.figures.findings import method_name, recoveries
from exhume.figures.protocols import TINY_IMAGENET, descent, exact
from exhume.figures.statistics import widest
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.record import Record

_SIZE, _FULL_SIZE = 32, 64
GALLERY_LAPTOP = Grid(
    name="Tiny-ImageNet 32x32, n = 10",
    data={**TINY_IMAGENET, "per_class": 5, "size": _SIZE},
    ratio=4,
    attack=[descent(200), exact()],
)
GALLERY_PAPER = Grid(
    name="Tiny-ImageNet, n = 20",
    data={**TINY_IMAGENET, "per_class": 10},
    ratio=10,
    attack=[descent(), exact()],
)


def pictures(records: Sequence[Record]) -> list[Record]:
    """The cells of the gallery: of the largest images those with the most parameters."""
    sizes = [record.cell.data.options.get("size", _FULL_SIZE) for record in records]
    return widest([record for record, size in zip(records, sizes, strict=True) if size == max(sizes)])


def draw_pictures(records: Sequence[Record]) -> Drawing:
    """The gallery of Figures 5 and 14."""
    return galleries.gallery(pictures(records), title="Tiny-ImageNet from random features: truth, paper's attack, ours")


FIGURE = Figure(
    name="fig5",
    title="images of higher dimension, Tiny-ImageNet",
    shows="Images recovered from random features trained on Tiny-ImageNet classes 2 and 116.",
    claim="20 images of dimension 12,288 are recovered at p = 10dn, visually the same as the originals.",
    laptop=Scale(
        "Tiny-ImageNet classes 2 and 116, area-averaged to 32x32 (d = 3072), n = 10, p = 4dn, one seed, descent of at "
        "most 200 steps",
        (GALLERY_LAPTOP,),
        4,
    ),
    paper=Scale(
        "Tiny-ImageNet classes 2 and 116, 64x64 (d = 12,288), n = 20, p = 10dn, one seed, descent with step 8000 until "
        "its loss is 1e-7",
        (GALLERY_PAPER,),
        5_000,
    ),
    gallery=draw_pictures,
    findings=lambda records: recoveries(pictures(records), method_name),
    pictures_of="Tiny-ImageNet",
)
