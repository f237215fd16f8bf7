"""Figure 16: pruned models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exhume.figures.base import Figure, Scale
from exhume.figures.findings import variant_findings
from exhume.figures.panels import sizes, threshold_drawing
from exhume.figures.protocols import descent, exact, sphere
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from exhume.sweep.record import Record

_SHARES = (0.5, 0.25)
_VICTIMS: list[dict[str, float]] = [{}, *({"prune": share} for share in _SHARES)]
_LAPTOP = Grid(
    name="pruning, sphere d = 30, n = 20",
    data=sphere(30, 20),
    victim=_VICTIMS,
    ratio=[0.5, 1, 2, 5, 10, 20],
    attack=[descent(1500), exact(6000)],
    seeds=4,
)
_PAPER = Grid(
    name="pruning, sphere",
    data=[sphere(30, 20), sphere(100, 100)],
    victim=[{}, *({"prune": share} for share in (0.75, 0.5, 0.25, 0.1))],
    ratio=[0.1, 0.5, 1, 2, 5, 10, 20],
    attack=[descent(), exact()],
    seeds=10,
)


def _share(record: Record) -> str:
    kept = record.cell.victim.model_dump()["prune"]
    return "unpruned" if kept is None else f"p'/p = {kept:g}"


def _before_pruning(record: Record) -> float:
    """p as it was trained."""
    options = record.cell.data.options
    return (record.cell.ratio or 0.0) * options["dim"] * options["samples"]


FIGURE = Figure(
    name="fig16",
    title="pruned models",
    shows="Training loss and reconstruction error against p before pruning, for models pruned by Optimal Brain Surgeon "
    "to several shares of their weights.",
    claim="Pruning raises the number of parameters that reconstruction needs.",
    laptop=Scale(
        "sphere d = 30, n = 20, all weights, half and a quarter of them, p from 0.5 to 20dn before pruning, 4 seeds, "
        "descent of at most 1,500 steps, exact of at most 6,000 passes",
        (_LAPTOP,),
        3,
    ),
    paper=Scale(
        "sphere (d, n) = (30, 20) and (100, 100), shares 1, 0.75, 0.5, 0.25 and 0.1 (the paper's are not given), p "
        "from 0.1 to 20dn before pruning, 10 seeds, descent with step 20 until its loss is 1e-7",
        (_PAPER,),
        20_000,
    ),
    draw=threshold_drawing(sizes, variants=_share, x=_before_pruning, x_label="number of parameters p before pruning"),
    findings=variant_findings(_share),
)
