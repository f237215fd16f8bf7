"""Figure 9: the true features are spanned by the recovered ones, on the sphere and for networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exhume.figures.base import Figure, Scale
from exhume.figures.fig03 import MIDDLE_LAPTOP, MIDDLE_PAPER
from exhume.figures.fig06 import RESNET_LAPTOP, RESNET_PAPER, TWO_LAYER_LAPTOP, TWO_LAYER_PAPER, network_name
from exhume.figures.findings import span_inclusion
from exhume.figures.panels import threshold_drawing
from exhume.figures.statistics import grouped

if TYPE_CHECKING:
    from exhume.sweep.record import Record


def _title(record: Record) -> str:
    return "random features, sphere" if record.cell.victim.kind == "rf" else network_name(record)


def _findings(records: Sequence[Record]) -> str:
    return " ".join(f"({name}) {span_inclusion(mine)}" for name, mine in grouped(records, _title).items())


FIGURE = Figure(
    name="fig9",
    title="true features in the span of the recovered ones, three models",
    shows="Training loss, reconstruction error and the residual of the true features outside the span of the recovered "
    "ones, for random features on the sphere, two-layer networks and ResNets.",
    claim="Error and residual are large until the last layer has dn weights and then fall together.",
    laptop=Scale(
        "the cells of Figure 3 with (d, n) = (100, 20) and those of Figure 6 but subspace",
        (*MIDDLE_LAPTOP, TWO_LAYER_LAPTOP, RESNET_LAPTOP),
        4,
    ),
    paper=Scale(
        "the cells of Figure 3 with (d, n) = (100, 20) and those of Figure 6 but subspace, 10 seeds",
        (*MIDDLE_PAPER, TWO_LAYER_PAPER, RESNET_PAPER),
        40_000,
    ),
    draw=threshold_drawing(_title, show=("error", "training_loss", "orthogonal_residual")),
    findings=_findings,
)
