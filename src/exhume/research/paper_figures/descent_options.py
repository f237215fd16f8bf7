"""Figures 11 and 12: the step size of descent, and the number of rows that an attack looks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exhume.report.chart_style import legend_below
from exhume.research.paper_figures import galleries, style
from exhume.research.paper_figures.definition import figure
from exhume.research.paper_figures.panels import step_panel
from exhume.research.paper_figures.statistics import done, grouped, mean, method_name, of_method, outcome_of
from exhume.results.certificate import RECOVERED_BELOW

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.store import Record

# By the side of the images. The paper's base step grows with d: 2000 at d = 3072, which is 125 at d = 192.
_BASE_STEPS = {8: 125.0, 32: 2000.0}


# Figure 11
def _step(record: Record) -> str:
    base = _BASE_STEPS[record.cell.data.options.get("size", 32)]
    return f"step {record.cell.attack.options['step_size'] / base:g} eta*"


def _draw_steps(records: Sequence[Record]) -> Drawing:
    sheet, axes = style.figure(columns=3)
    columns = {"error": "reconstruction error", "steps": "steps", "loss": "reconstruction loss"}
    for axis, (column, name) in zip(axes, columns.items(), strict=True):
        step_panel(axis, records, column, variants=_step, title=name)
    legend_below(sheet, *axes)
    return sheet


def _step_findings(records: Sequence[Record]) -> str:
    widest = max((outcome_of(record).ratio for record in done(records)), default=0.0)
    far = [record for record in done(records) if outcome_of(record).ratio == widest]
    parts = [
        f"{name}: error {mean(mine, 'claimed_error'):.2g}, loss {mean(mine, 'loss'):.1e}"
        for name, mine in grouped(of_method(far, "descent"), _step).items()
    ]
    ours = of_method(far, "exact")
    if ours:
        parts.append(f"exact (ours), which has no step size: error {mean(ours, 'claimed_error'):.1e}")
    return f"At p = {widest:g}dn: " + "; ".join(parts) + "."


# Figure 12
def _rows(record: Record) -> str:
    wanted = record.cell.attack.num_samples
    return f"{method_name(record)}, {'rows estimated' if wanted == 'estimate' else f'{wanted} rows'}"


def _row_findings(records: Sequence[Record]) -> str:
    parts = []
    for record in done(records):
        outcome = outcome_of(record)
        part = f"{_rows(record)}: returns {outcome.num_rows}, "
        part += f"{outcome.recovered_up_to_sign} of {outcome.num_samples} within {RECOVERED_BELOW}"
        if outcome.num_rows > outcome.num_samples:
            part += f", {outcome.duplicates} rows repeat a sample, {outcome.strays} resemble none"
        parts.append(part)
    return "; ".join(parts) + "."


def _row_gallery(records: Sequence[Record]) -> Drawing:
    return galleries.gallery(records, rows=_rows, extras=True, title="fewer and more rows than samples")


FIGURES = (
    figure("fig11", draw=_draw_steps, findings=_step_findings),
    figure("fig12", gallery=_row_gallery, findings=_row_findings),
)
