"""Figure 11: the step size of the paper's descent."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from exhume.figures import curves, style
from exhume.figures.base import Figure, Scale
from exhume.figures.protocols import FROGS_AND_TRUCKS, descent, exact
from exhume.figures.statistics import done, grouped, of_method, outcome_of
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.record import Record

# The paper's step is the same number for every input coordinate: 2000 at d = 3072, 125 at d = 192.
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
_SMALL_STEP, _FULL_STEP = 125.0, 2000.0


def _attacks(base: float, steps: int, **limits: Any) -> list[dict[str, Any]]:
    return [*(descent(steps, step_size=base * factor) for factor in _FACTORS), exact(**limits)]


_LAPTOP = Grid(
    name="step sizes, CIFAR-10 8x8, n = 10",
    data={**FROGS_AND_TRUCKS, "per_class": 5, "size": 8},
    ratio=[0.5, 1, 2, 4, 10],
    attack=_attacks(_SMALL_STEP, 1000, passes=4000),
    seeds=3,
)
_PAPER = Grid(
    name="step sizes, CIFAR-10, n = 20",
    data={**FROGS_AND_TRUCKS, "per_class": 10},
    ratio=[0.01, 0.1, 0.5, 1, 2, 4, 10],
    attack=_attacks(_FULL_STEP, 60_000),
    seeds=10,
)


def _step(record: Record) -> str:
    step = record.cell.attack.options["step_size"]
    size = record.cell.data.options.get("size", 32)
    return f"step {step / (_SMALL_STEP if size == 8 else _FULL_STEP):g} eta*"


def _draw(records: Sequence[Record]) -> Drawing:
    sheet, axes = style.figure(columns=3)
    for axis, (column, words) in zip(
        axes, (("error", "reconstruction error"), ("steps", "steps"), ("loss", "reconstruction loss")), strict=True
    ):
        curves.step_panel(axis, records, column, variants=_step, title=words, y_label=words)
    style.legend_below(sheet, axes)
    return sheet


def _findings(records: Sequence[Record]) -> str:
    parts = []
    widest = max((outcome_of(record).ratio for record in done(records)), default=0.0)
    far = [record for record in done(records) if outcome_of(record).ratio == widest]
    for name, mine in grouped(of_method(far, "descent"), _step).items():
        outcomes = [outcome_of(record) for record in mine]
        error, loss = fmean(each.claimed_error for each in outcomes), fmean(each.loss for each in outcomes)
        parts.append(f"{name}: error {error:.2g}, loss {loss:.1e}")
    ours = [outcome_of(record).claimed_error for record in of_method(far, "exact")]
    if ours:
        parts.append(f"exact (ours), which has no step size: error {fmean(ours):.1e}")
    return f"At p = {widest:g}dn: " + "; ".join(parts) + "."


FIGURE = Figure(
    name="fig11",
    title="the step size of descent",
    shows="Error, steps and final loss of the paper's descent for five step sizes, against p; exact for reference.",
    claim="Steps up to the base step converge and recover the data past dn; twice and four times the base step "
    "oscillate and do not converge within 60,000 steps.",
    laptop=Scale(
        "CIFAR-10 frogs and trucks at 8x8 (d = 192), n = 10, p from 0.5 to 10dn, steps of 1/4 to 4 times "
        "eta* = 125 (the paper's 2000 per input coordinate), 3 seeds, at most 1,000 steps, exact of at most 4,000 "
        "passes",
        (_LAPTOP,),
        3,
    ),
    paper=Scale(
        "CIFAR-10 frogs and trucks (d = 3072), n = 20, p from 0.01 to 10dn, steps of 1/4 to 4 times eta* = 2000, "
        "10 seeds, at most 60,000 steps",
        (_PAPER,),
        100_000,
    ),
    draw=_draw,
    findings=_findings,
)
