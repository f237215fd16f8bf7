"""Figure 8: the law for classification losses: logistic on random features, cross-entropy on a two-layer network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exhume.figures.base import Figure, Scale
from exhume.figures.panels import threshold_drawing, threshold_findings
from exhume.figures.protocols import TEN_CLASSES, descent, exact, sphere
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from exhume.sweep.record import Record

_LOGISTIC_LAPTOP = Grid(
    name="logistic, sphere d = n = 40",
    data=sphere(40, 40, labels="sign"),
    victim={"loss": "logistic", "max_steps": 100_000},
    ratio=[0.1, 0.5, 1, 2, 4, 10],
    attack=[descent(1000), exact(3000)],
    seeds=3,
)
_CROSS_ENTROPY_LAPTOP = Grid(
    name="cross-entropy, two-layer, CIFAR-10 8x8, n = 10",
    data={**TEN_CLASSES, "per_class": 1, "size": 8},
    victim={"kind": "two-layer", "loss": "cross-entropy", "max_steps": 100_000},
    ratio=[0.5, 1, 2, 4, 8],
    attack=[descent(1000), exact(2000, max_starts=2)],
    seeds=3,
)
_LOGISTIC_PAPER = Grid(
    name="logistic, sphere d = n = 100",
    data=sphere(100, 100, labels="sign"),
    victim={"loss": "logistic"},
    ratio=[0.01, 0.1, 0.5, 1, 2, 5, 10],
    attack=[descent(), exact()],
    seeds=10,
)
_CROSS_ENTROPY_PAPER = Grid(
    name="cross-entropy, two-layer, CIFAR-10, n = 10",
    data={**TEN_CLASSES, "per_class": 1},
    victim={"kind": "two-layer", "loss": "cross-entropy", "stable": False},
    ratio=[0.01, 0.1, 0.5, 1, 2, 4, 10],
    attack=[descent(), exact()],
    seeds=10,
)


def _title(record: Record) -> str:
    return "logistic, random features" if record.cell.victim.kind == "rf" else "cross-entropy, two-layer network"


FIGURE = Figure(
    name="fig8",
    title="thresholds for classification losses",
    shows="Training loss, reconstruction error and residual of the true features for random features trained with the "
    "logistic loss and two-layer networks trained with cross-entropy.",
    claim="The usual threshold p = dn for both losses, with results like those of regression.",
    laptop=Scale(
        "logistic: sphere d = n = 40, sign labels, p from 0.1 to 10dn, 3 seeds, 100,000 steps of 1e-3; cross-entropy: "
        "two-layer networks on CIFAR-10 at 8x8 (d = 192), n = 10, 0.5 to 8dn weights in the last layer, 3 seeds, the "
        "time of 100,000 steps of 1e-3 with the stable step; descent of at most 1,000 steps, exact of at most 3,000 "
        "and 2,000 passes, the latter with 2 starts",
        (_LOGISTIC_LAPTOP, _CROSS_ENTROPY_LAPTOP),
        2,
    ),
    paper=Scale(
        "logistic: sphere d = n = 100, sign labels, p from 0.01 to 10dn; cross-entropy: two-layer networks on CIFAR-10 "
        "(d = 3072), n = 10, last layers of 0.01 to 10dn weights; both 10 seeds, 10^6 steps of 1e-3, descent until "
        "its loss is 1e-7",
        (_LOGISTIC_PAPER, _CROSS_ENTROPY_PAPER),
        20_000,
    ),
    draw=threshold_drawing(_title, show=("error", "training_loss", "orthogonal_residual")),
    findings=threshold_findings(_title),
)
