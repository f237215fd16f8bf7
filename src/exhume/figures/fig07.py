"""Figure 7: images of ten classes out of a two-layer network, square loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from exhume.figures import galleries
from exhume.figures.base import Figure, Scale
from exhume.figures.findings import method_name, recoveries
from exhume.figures.protocols import TEN_CLASSES, descent, exact
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.record import Record

_PAPER_PER_CLASS = 10


def laptop_grid(per_class: int, **victim: Any) -> Grid:
    """A two-layer network on 16x16 images of ten classes."""
    return Grid(
        name=f"two-layer, CIFAR-10 16x16, n = {10 * per_class}, {victim.get('loss', 'square')}",
        data={**TEN_CLASSES, "per_class": per_class, "size": 16},
        victim={"kind": "two-layer", **victim},
        ratio=4,
        attack=[descent(300), exact()],
    )


def paper_grid(**victim: Any) -> Grid:
    """The paper's network."""
    return Grid(
        name=f"two-layer, CIFAR-10, n = {10 * _PAPER_PER_CLASS}, {victim.get('loss', 'square')}",
        data={**TEN_CLASSES, "per_class": _PAPER_PER_CLASS},
        victim={"kind": "two-layer", "stable": False, **victim},
        ratio=4,
        attack=[descent(), exact()],
    )


def pictures(title: str) -> Callable[[Sequence[Record]], Drawing]:
    """The gallery of Figures 7 and 17."""
    return lambda records: galleries.gallery(records, title=title)


FIGURE = Figure(
    name="fig7",
    title="images of ten classes from a two-layer network, square loss",
    shows="Images recovered from the last layer of a two-layer network trained on ten classes with the square loss.",
    claim="All 100 images are recovered, visually the same as the originals, from a last layer of 4dn weights.",
    laptop=Scale(
        "CIFAR-10 at 16x16 (d = 768), 10 images of each class, n = 100, one-hot labels, 4dn weights in the last layer, "
        "trained with the stable step, one seed, descent of at most 300 steps",
        (laptop_grid(10),),
        5,
    ),
    paper=Scale(
        "CIFAR-10 (d = 3072), 10 images of each class, n = 100, one-hot labels, 4dn weights in the last layer, trained "
        "with step 1e-5 for up to 10^6 steps, descent until its loss is 1e-7",
        (paper_grid(),),
        2_000,
    ),
    gallery=pictures("two-layer network, square loss: truth, paper's attack, ours"),
    findings=lambda records: recoveries(records, method_name),
    pictures_of="CIFAR-10",
)
