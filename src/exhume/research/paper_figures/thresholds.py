"""Figures 1, 2, 3, 14, 15 and 16: thresholds of random features in the number of parameters p."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exhume.research.paper_figures import galleries
from exhume.research.paper_figures.definition import figure
from exhume.research.paper_figures.images import draw_tiny, tiny_pictures
from exhume.research.paper_figures.panels import SHOWN, side_by_side, threshold_panel
from exhume.research.paper_figures.statistics import (
    findings_by,
    method_name,
    recoveries,
    sizes,
    span_inclusion,
    thresholds,
    variant_findings,
    widest,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.store import Record


def _by_size(records: Sequence[Record], size: int) -> tuple[list[Record], list[Record]]:
    """The records of images of this size, and the others."""
    chosen = [record for record in records if record.cell.data.options.get("size") == size]
    return chosen, [record for record in records if record not in chosen]


# Figures 1 and 2
def _on_cifar(record: Record) -> str:
    return "random features on CIFAR-10"


_cifar_errors = side_by_side(_on_cifar, threshold_panel)


def _cifar_gallery(records: Sequence[Record]) -> Drawing:
    pictures = _by_size(records, 16)[0] or list(records)
    return galleries.gallery(widest(pictures), title="CIFAR-10 from random features: truth, paper's attack, ours")


def _cifar_findings(records: Sequence[Record]) -> str:
    pictures, errors = _by_size(records, 16)
    gallery = f" Pictures at 16x16, p = 4dn: {recoveries(pictures, method_name)}" if pictures else ""
    return thresholds(errors) + gallery


# Figure 14
_tiny_errors = side_by_side(lambda record: "random features on Tiny-ImageNet", threshold_panel, show=SHOWN)


def _tiny_curve(records: Sequence[Record]) -> list[Record]:
    return _by_size(records, 8)[0] or list(records)


def _tiny_findings(records: Sequence[Record]) -> str:
    errors, pictures = _tiny_curve(records), recoveries(tiny_pictures(records), method_name)
    return f"{thresholds(errors)} {span_inclusion(errors)} Pictures: {pictures}"


# Figure 15
def _ridge(record: Record) -> str:
    return f"ridge {record.cell.victim.model_dump()['ridge']:g}"


# Figure 16
def _share(record: Record) -> str:
    kept = record.cell.victim.model_dump()["prune"]
    return "unpruned" if kept is None else f"p'/p = {kept:g}"


def _before_pruning(record: Record) -> float:
    """p before pruning."""
    options = record.cell.data.options
    return (record.cell.ratio or 0.0) * options["dim"] * options["samples"]


_draw_pruned = side_by_side(
    sizes, threshold_panel, variants=_share, x=_before_pruning, x_label="number of parameters p before pruning"
)

FIGURES = (
    figure(
        "fig1",
        draw=lambda records: _cifar_errors(_by_size(records, 16)[1]),
        gallery=_cifar_gallery,
        findings=_cifar_findings,
    ),
    figure(
        "fig2",
        draw=side_by_side(_on_cifar, threshold_panel, show=("error", "orthogonal_residual")),
        findings=span_inclusion,
    ),
    figure("fig3", draw=side_by_side(sizes, threshold_panel), findings=findings_by(sizes)),
    figure(
        "fig14", draw=lambda records: _tiny_errors(_tiny_curve(records)), gallery=draw_tiny, findings=_tiny_findings
    ),
    figure("fig15", draw=side_by_side(sizes, threshold_panel, variants=_ridge), findings=variant_findings(_ridge)),
    figure("fig16", draw=_draw_pruned, findings=variant_findings(_share)),
)
