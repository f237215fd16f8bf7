"""Figures 6, 7, 8, 9, 13 and 17: networks trained by gradient descent, and classification losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exhume.research.paper_figures import galleries
from exhume.research.paper_figures.definition import Figure, figure
from exhume.research.paper_figures.panels import SHOWN, side_by_side, threshold_panel
from exhume.research.paper_figures.statistics import findings_by, method_name, recoveries, span_inclusion, thresholds

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.store import Record

_NETWORK_NAMES = {
    "rf": "random features, sphere",
    "two-layer": "two-layer network",
    "resnet": "ResNet",
    "vit": "vision transformer",
}


def _network_name(record: Record) -> str:
    return _NETWORK_NAMES[record.cell.victim.kind]


def _loss_name(record: Record) -> str:
    return "logistic, random features" if record.cell.victim.kind == "rf" else "cross-entropy, two-layer network"


def _ten_classes(name: str, loss: str) -> Figure:
    """Figures 7 and 17 differ in the loss."""
    title = f"two-layer network, {loss}: truth, paper's attack, ours"
    return figure(
        name,
        gallery=lambda records: galleries.gallery(records, title=title),
        findings=lambda records: recoveries(records, method_name),
    )


def _vit_gallery(records: Sequence[Record]) -> Drawing:
    four = [record for record in records if record.cell.ratio == 4 and record.cell.seed == 0]
    return galleries.gallery(four, title="vision transformer, 4dn weights in the last layer")


FIGURES = (
    figure(
        "fig6",
        draw=side_by_side(_network_name, threshold_panel, x_label="weights of the last layer"),
        findings=findings_by(_network_name),
    ),
    _ten_classes("fig7", "square loss"),
    figure("fig8", draw=side_by_side(_loss_name, threshold_panel, show=SHOWN), findings=findings_by(_loss_name)),
    figure(
        "fig9",
        draw=side_by_side(_network_name, threshold_panel, show=SHOWN),
        findings=findings_by(_network_name, span_inclusion),
    ),
    figure(
        "fig13",
        draw=side_by_side(_network_name, threshold_panel, show=SHOWN),
        gallery=_vit_gallery,
        findings=lambda records: f"{thresholds(records)} {span_inclusion(records)}",
    ),
    _ten_classes("fig17", "cross-entropy"),
)
