"""Figure 17: images of ten classes out of a two-layer network, cross-entropy."""

from __future__ import annotations

from exhume.figures.base import Figure, Scale
from exhume.figures.fig07 import laptop_grid, paper_grid, pictures
from exhume.figures.findings import method_name, recoveries

FIGURE = Figure(
    name="fig17",
    title="images of ten classes from a two-layer network, cross-entropy",
    shows="The images of Figure 7 recovered from a network trained with cross-entropy.",
    claim="The images are recovered as from a network trained with the square loss.",
    laptop=Scale(
        "CIFAR-10 at 16x16 (d = 768), 2 images of each class, n = 20, cross-entropy, 4dn weights in the last layer, "
        "trained for the time of 100,000 steps of 1e-3 with the stable step, one seed, descent of at most 300 steps",
        (laptop_grid(2, loss="cross-entropy", max_steps=100_000),),
        2,
    ),
    paper=Scale(
        "CIFAR-10 (d = 3072), 10 images of each class, n = 100, cross-entropy, 4dn weights in the last layer, trained "
        "with step 1e-3 for 10^6 steps, descent until its loss is 1e-7",
        (paper_grid(loss="cross-entropy"),),
        5_000,
    ),
    gallery=pictures("two-layer network, cross-entropy: truth, paper's attack, ours"),
    findings=lambda records: recoveries(records, method_name),
    pictures_of="CIFAR-10",
)
