"""Figures 4, 5 and 10: images recovered from random features, and their signs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exhume.research.paper_figures import galleries
from exhume.research.paper_figures.definition import Figure, figure
from exhume.research.paper_figures.statistics import (
    by_group,
    done,
    method_name,
    of_method,
    outcome_of,
    recoveries,
    total,
    widest,
)
from exhume.results.certificate import RECOVERED_BELOW

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.store import Record

_FULL_SIZE = 64  # of Tiny-ImageNet


def _most_flipped(records: Sequence[Record]) -> int:
    """The seed whose descent left the most samples with the wrong sign; the smallest of equals."""
    flipped = {record.cell.seed: outcome_of(record).flipped for record in of_method(done(records), "descent")}
    return min(flipped, key=lambda seed: (-flipped[seed], seed), default=0)


def _signs(members: Sequence[Record]) -> str:
    """How many samples of a group came back as negatives, and how many were recovered."""
    wrong, found = total(members, "flipped"), total(members, "recovered_up_to_sign")
    return (
        f"{wrong} of {total(members, 'num_samples')} came back as negatives, {found} are within {RECOVERED_BELOW} up "
        "to sign"
    )


def _signs_figure(name: str, activation: str) -> Figure:
    """A gallery of the seed with most wrong signs, each picture with the sign that the attack returned."""

    def gallery(records: Sequence[Record]) -> Drawing:
        seed = _most_flipped(records)
        mine = [record for record in records if record.cell.seed == seed]
        title = f"signs as they came out, {activation}, seed {seed}"
        return galleries.gallery(mine, signs="as found", title=title)

    return figure(name, gallery=gallery, findings=lambda records: by_group(records, method_name, _signs))


def tiny_pictures(records: Sequence[Record]) -> list[Record]:
    """The cells of the gallery: those with the most parameters among those with the largest images."""
    sizes = [record.cell.data.options.get("size", _FULL_SIZE) for record in records]
    return widest([record for record, size in zip(records, sizes, strict=True) if size == max(sizes)])


def draw_tiny(records: Sequence[Record]) -> Drawing:
    """The gallery of Figures 5 and 14."""
    title = "Tiny-ImageNet from random features: truth, paper's attack, ours"
    return galleries.gallery(tiny_pictures(records), title=title)


FIGURES = (
    _signs_figure("fig4", "ReLU"),
    figure("fig5", gallery=draw_tiny, findings=lambda records: recoveries(tiny_pictures(records), method_name)),
    _signs_figure("fig10", "ReLU + tanh"),
)
