"""Figure 6: the law for networks trained by gradient descent, two-layer and residual."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exhume.figures.base import Figure, Scale
from exhume.figures.panels import threshold_drawing, threshold_findings
from exhume.figures.protocols import CHANNELS, FROGS_AND_TRUCKS, TEN_CLASSES, descent, exact
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from exhume.sweep.record import Record

_PAPER_TRAINING = {"stable": False}
_TWO_LAYER_LAPTOP: dict[str, Any] = {
    "data": {**TEN_CLASSES, "per_class": 1, "size": 16},
    "victim": {"kind": "two-layer"},
    "ratio": [0.1, 0.5, 1, 2, 4, 8],
    "seeds": 3,
}
_TWO_LAYER_PAPER: dict[str, Any] = {
    "data": {**TEN_CLASSES, "per_class": 1},
    "victim": {"kind": "two-layer", **_PAPER_TRAINING},
    "ratio": [0.01, 0.1, 0.5, 1, 2, 4, 10],
    "seeds": 10,
}
_SUBSPACE = {"method": "subspace"}
TWO_LAYER_LAPTOP = Grid(
    name="two-layer, CIFAR-10 16x16, n = 10",
    attack=[descent(300), exact(3000, max_starts=2)],
    **_TWO_LAYER_LAPTOP,
)
_SUBSPACE_LAPTOP = Grid(name="two-layer, CIFAR-10 16x16, n = 10, subspace", attack=_SUBSPACE, **_TWO_LAYER_LAPTOP)
TWO_LAYER_PAPER = Grid(name="two-layer, CIFAR-10, n = 10", attack=[descent(), exact()], **_TWO_LAYER_PAPER)
_SUBSPACE_PAPER = Grid(name="two-layer, CIFAR-10, n = 10, subspace", attack=_SUBSPACE, **_TWO_LAYER_PAPER)
RESNET_LAPTOP = Grid(
    name="ResNet, CIFAR-10 8x8, n = 4",
    data={**FROGS_AND_TRUCKS, **CHANNELS, "per_class": 2, "size": 8},
    victim={"kind": "resnet"},
    ratio=[0.25, 0.5, 1, 2, 4, 8],
    attack=[descent(300), exact(1500, max_starts=2)],
    seeds=2,
)
RESNET_PAPER = Grid(
    name="ResNet, CIFAR-10, n = 10",
    data={**FROGS_AND_TRUCKS, **CHANNELS, "per_class": 5},
    victim={"kind": "resnet", **_PAPER_TRAINING},
    ratio=[0.01, 0.1, 0.5, 1, 2, 4, 10],
    attack=[descent(), exact()],
    seeds=10,
)
NAMES = {"two-layer": "two-layer network", "resnet": "ResNet", "vit": "vision transformer"}


def network_name(record: Record) -> str:
    """The title of a network's plot."""
    return NAMES[record.cell.victim.kind]


FIGURE = Figure(
    name="fig6",
    title="thresholds for networks trained by gradient descent",
    shows="Training loss and reconstruction error against the weights of the last layer, for two-layer networks on ten "
    "classes and for ResNets on two.",
    claim="The reconstruction error falls once the last layer has more than dn weights, in both architectures, while "
    "the labels are fitted everywhere.",
    laptop=Scale(
        "CIFAR-10; two-layer: 16x16 (d = 768), ten classes, n = 10, 3 seeds; ResNet: 8x8 (d = 192), n = 4, 2 seeds; "
        "trained with the stable step; descent of at most 300 steps, exact of at most 3,000 and 1,500 passes, 2 "
        "starts; subspace, which knows the initial weights of both layers, on the two-layer networks",
        (TWO_LAYER_LAPTOP, _SUBSPACE_LAPTOP, RESNET_LAPTOP),
        3,
    ),
    paper=Scale(
        "CIFAR-10 (d = 3072), n = 10, two-layer networks on ten classes and ResNets on frogs and trucks, last layers "
        "of 0.01 to 10dn weights, 10 seeds, trained with step 1e-5 for up to 10^6 steps, descent until its loss is "
        "1e-7; subspace, which knows the initial weights of both layers, on the two-layer networks",
        (TWO_LAYER_PAPER, _SUBSPACE_PAPER, RESNET_PAPER),
        40_000,
    ),
    draw=threshold_drawing(network_name, x_label="weights of the last layer"),
    findings=threshold_findings(network_name),
)
