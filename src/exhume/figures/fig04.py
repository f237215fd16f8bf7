"""Figure 4: under descent, images from a ReLU model may come back with the wrong sign."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from exhume.figures import galleries
from exhume.figures.base import Figure, Scale
from exhume.figures.findings import method_name
from exhume.figures.protocols import FROGS_AND_TRUCKS, descent, exact
from exhume.figures.statistics import done, grouped, of_method, outcome_of
from exhume.scoring import RECOVERED_BELOW
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.record import Record

# Rows of norm sqrt(d): the paper's descent assumes them, and ReLU + tanh would show any other.
_SMALL = {**FROGS_AND_TRUCKS, "per_class": 10, "size": 8, "norm": "sphere"}
_FULL = {**FROGS_AND_TRUCKS, "per_class": 50}


def laptop_grid(activation: str) -> Grid:
    """The same pictures and seeds for both activations."""
    return Grid(
        name=f"CIFAR-10 8x8, n = 20, {activation}",
        data=_SMALL,
        victim={"activation": activation},
        ratio=5,
        attack=[descent(800), exact(6000)],
        seeds=10,
    )


def paper_grid(activation: str) -> Grid:
    """The protocol of Figure 1 with other seeds."""
    return Grid(
        name=f"CIFAR-10, n = 100, {activation}",
        data=_FULL,
        victim={"activation": activation},
        ratio=10,
        attack=[descent(), exact()],
        seeds=[4],
    )


def most_flipped(records: Sequence[Record]) -> int:
    """The seed whose descent left the most samples with the wrong sign; the smallest of equals."""
    flipped = {record.cell.seed: outcome_of(record).flipped for record in of_method(done(records), "descent")}
    return min(flipped, key=lambda seed: (-flipped[seed], seed), default=0)


def signs_drawing(title: str) -> Callable[[Sequence[Record]], Drawing]:
    """A gallery with signs as they came out, of the seed that shows most of them wrong."""

    def draw(records: Sequence[Record]) -> Drawing:
        seed = most_flipped(records)
        mine = [record for record in records if record.cell.seed == seed]
        return galleries.gallery(mine, signs="as found", title=f"{title}, seed {seed}")

    return draw


def signs(records: Sequence[Record]) -> str:
    """How many samples came back as negatives from each attack, and how many it recovered."""
    parts = []
    for name, members in grouped(done(records), method_name).items():
        outcomes = [outcome_of(record) for record in members]
        wrong, found = sum(each.flipped for each in outcomes), sum(each.recovered_up_to_sign for each in outcomes)
        of = sum(each.num_samples for each in outcomes)
        parts.append(f"{name}: {wrong} of {of} came back as negatives, {found} are within {RECOVERED_BELOW} up to sign")
    return "; ".join(parts) + "."


FIGURE = Figure(
    name="fig4",
    title="signs under ReLU",
    shows="Images recovered from a ReLU model, with the signs they came out with.",
    claim="Some images come back as negatives, because all odd Hermite coefficients of ReLU but the first vanish.",
    laptop=Scale(
        "CIFAR-10 frogs and trucks at 8x8 (d = 192), every row of norm sqrt(d), n = 20, p = 5dn, ReLU, 10 seeds, "
        "descent of at most 800 steps, exact of at most 6,000 passes; drawn is the seed with most negatives",
        (laptop_grid("relu"),),
        2,
    ),
    paper=Scale(
        "CIFAR-10 frogs and trucks (d = 3072), n = 100, p = 10dn, ReLU, one seed, descent until its loss is 1e-7",
        (paper_grid("relu"),),
        3_000,
    ),
    gallery=signs_drawing("signs as they came out, ReLU"),
    findings=signs,
    pictures_of="CIFAR-10",
)
