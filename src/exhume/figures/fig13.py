"""Figure 13: vision transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exhume.figures import galleries
from exhume.figures.base import Figure, Scale
from exhume.figures.fig06 import network_name
from exhume.figures.findings import span_inclusion, thresholds
from exhume.figures.panels import threshold_drawing
from exhume.figures.protocols import CHANNELS, descent, exact
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.record import Record

_LAPTOP = Grid(
    name="ViT, CIFAR-10 8x8, n = 3",
    data={"name": "cifar10", "classes": "0,1,2", "labels": "one-hot", "per_class": 1, "size": 8, **CHANNELS},
    victim={"kind": "vit", "settings": {"patch": 8, "depth": 1}},
    ratio=[0.25, 1, 2, 4, 8],
    attack=[descent(150), exact(800, max_starts=1)],
    seeds=1,
)
_PAPER = Grid(
    name="ViT, CIFAR-10, n = 5",
    data={"name": "cifar10", "classes": "0,1,2,3,4", "labels": "one-hot", "per_class": 1, **CHANNELS},
    victim={"kind": "vit", "stable": False, "settings": {"patch": 16, "depth": 12}},
    ratio=[0.01, 0.1, 0.5, 1, 2, 4],
    attack=[descent(), exact()],
    seeds=10,
)


def _gallery(records: Sequence[Record]) -> Drawing:
    four = [record for record in records if record.cell.ratio == 4 and record.cell.seed == 0]
    return galleries.gallery(four, title="vision transformer, 4dn weights in the last layer")


def _findings(records: Sequence[Record]) -> str:
    return f"{thresholds(records)} {span_inclusion(records)}"


FIGURE = Figure(
    name="fig13",
    title="vision transformers",
    shows="Training loss, reconstruction error and residual of the true features against the weights of the last "
    "layer of vision transformers, and the images at 4dn.",
    claim="The error goes down and images are recovered once the last layer has more than dn weights.",
    laptop=Scale(
        "CIFAR-10 at 8x8 (d = 192), three classes, n = 3, one patch, depth 1, 0.25 to 8dn weights in the last layer, "
        "one seed, trained with the stable step, descent of at most 150 steps, exact of at most 800 passes, one start",
        (_LAPTOP,),
        2,
    ),
    paper=Scale(
        "CIFAR-10 (d = 3072), first five classes, n = 5, patches of 16, depth 12 (the paper says akin to ViT-B/16 and "
        "no more), 0.01 to 4dn weights in the last layer, 10 seeds, 10^6 steps of 1e-5, descent until its loss is 1e-7",
        (_PAPER,),
        100_000,
    ),
    draw=threshold_drawing(network_name, show=("error", "training_loss", "orthogonal_residual")),
    gallery=_gallery,
    findings=_findings,
    pictures_of="CIFAR-10",
)
