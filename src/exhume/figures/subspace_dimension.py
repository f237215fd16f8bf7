"""Beyond the paper: data in a subspace, whose dimension takes the place of d in the law."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exhume.figures import curves, style
from exhume.figures.base import Figure, Scale
from exhume.figures.findings import smallest_solved
from exhume.figures.protocols import sphere
from exhume.figures.statistics import done, grouped, recovered
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.record import Record

_DIM, _SAMPLES = 200, 20
_DIMS = (5, 10, 20, 40)
_FACTORS = (1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
_ATTACK = {"method": "subspace", "knows": ["subspace"], "max_starts": 2}


def _grids(seeds: int, dims: Sequence[int], factors: Sequence[float]) -> tuple[Grid, ...]:
    """p as multiples of r n."""
    return tuple(
        Grid(
            name=f"subspace of dimension {dim}",
            data=sphere(_DIM, _SAMPLES, subspace_dim=dim),
            features=[round(factor * dim * _SAMPLES) for factor in factors],
            attack=_ATTACK,
            seeds=seeds,
        )
        for dim in dims
    )


def _in_subspace(record: Record) -> float:
    """p / (r n)."""
    return (record.cell.features or 0) / (record.cell.data.options["subspace_dim"] * _SAMPLES)


def _dimension(record: Record) -> str:
    return f"r = {record.cell.data.options['subspace_dim']}"


def _draw(records: Sequence[Record]) -> Drawing:
    sheet, axes = style.figure(columns=2)
    curves.success_panel(axes[0], records, by=_dimension, x=_in_subspace, x_label="p / (r n)", title="by dimension r")
    curves.success_panel(axes[1], records, by=_dimension, title=f"the same runs by d = {_DIM}")
    style.legend_below(sheet, axes)
    return sheet


def _findings(records: Sequence[Record]) -> str:
    parts = []
    for name, mine in grouped(done(records), _dimension).items():
        solved = smallest_solved(mine, lambda record: round(_in_subspace(record), 3))
        whole = "not all at any p" if solved is None else f"all from p = {solved:g} rn on"
        parts.append(f"{name}: {whole} ({sum(map(recovered, mine))} of {len(mine)} runs below 1e-3)")
    return "; ".join(parts) + "."


FIGURE = Figure(
    name="subspace",
    title="Subspace dimension against threshold",
    shows="The share of runs recovered, for data in a known subspace of r of 200 dimensions.",
    claim="With the subspace known the wall falls from p = dn to p = rn.",
    laptop=Scale(
        f"sphere in a random subspace of r = 5, 10, 20, 40 of d = {_DIM} dimensions, n = {_SAMPLES}, p from 1.25 to "
        "3rn, 3 seeds, subspace given, at most 2 starts",
        _grids(3, _DIMS, _FACTORS),
        3,
    ),
    paper=Scale(
        f"sphere in a random subspace of r = 5 to 40 of d = {_DIM} dimensions, n = {_SAMPLES}, p from 1.1 to 4rn, "
        "20 seeds, subspace given, at most 2 starts",
        _grids(20, _DIMS, (1.1, *_FACTORS, 4.0)),
        300,
    ),
    draw=_draw,
    findings=_findings,
    beyond=True,
)
