"""Figure 15: ridge regularisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exhume.figures.base import Figure, Scale
from exhume.figures.findings import variant_findings
from exhume.figures.panels import sizes, threshold_drawing
from exhume.figures.protocols import descent, exact, sphere
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from exhume.sweep.record import Record

# The paper says "even for very large values" and gives none.
_RIDGES = (0.0, 0.1, 10.0, 1000.0)
_VICTIMS = [{"ridge": ridge} for ridge in _RIDGES]
_LAPTOP = Grid(
    name="ridge, sphere d = 30, n = 20",
    data=sphere(30, 20),
    victim=_VICTIMS,
    ratio=[0.1, 0.5, 1, 2, 5, 10],
    attack=[descent(2000), exact(6000)],
    seeds=4,
)
_PAPER = Grid(
    name="ridge, sphere",
    data=[sphere(30, 20), sphere(100, 20), sphere(100, 100)],
    victim=_VICTIMS,
    ratio=[0.1, 0.5, 1, 2, 5, 10, 20],
    attack=[descent(), exact()],
    seeds=10,
)


def _ridge(record: Record) -> str:
    return f"ridge {record.cell.victim.model_dump()['ridge']:g}"


FIGURE = Figure(
    name="fig15",
    title="ridge regularisation",
    shows="Training loss and reconstruction error against p for several strengths of a ridge penalty.",
    claim="Even large penalties leave the threshold for reconstruction where it was.",
    laptop=Scale(
        "sphere d = 30, n = 20, ridge 0, 0.1, 10 and 1000, p from 0.1 to 10dn, 4 seeds, descent of at most 2,000 "
        "steps, exact of at most 6,000 passes",
        (_LAPTOP,),
        3,
    ),
    paper=Scale(
        "sphere (d, n) = (30, 20), (100, 20), (100, 100), ridge 0, 0.1, 10 and 1000 (the paper's are not given), p "
        "from 0.1 to 20dn, 10 seeds, descent with step 20 until its loss is 1e-7",
        (_PAPER,),
        20_000,
    ),
    draw=threshold_drawing(sizes, variants=_ridge),
    findings=variant_findings(_ridge),
)
