"""Figure 10: no wrong signs with an activation of mixed parity, ReLU + tanh."""

from __future__ import annotations

from exhume.figures.base import Figure, Scale
from exhume.figures.fig04 import laptop_grid, paper_grid, signs, signs_drawing

FIGURE = Figure(
    name="fig10",
    title="signs under ReLU + tanh",
    shows="The images of Figure 4 with the same seeds, recovered from a model with activation ReLU + tanh.",
    claim="No image comes back as a negative: the activation has high-order Hermite coefficients of both parities.",
    laptop=Scale(
        "CIFAR-10 frogs and trucks at 8x8 (d = 192), every row of norm sqrt(d), n = 20, p = 5dn, ReLU + tanh, 10 "
        "seeds, descent of at most 800 steps, exact of at most 6,000 passes; drawn is the seed with most negatives",
        (laptop_grid("relu+tanh"),),
        3,
    ),
    paper=Scale(
        "CIFAR-10 frogs and trucks (d = 3072), n = 100, p = 10dn, ReLU + tanh, the seed of Figure 4, descent until its "
        "loss is 1e-7",
        (paper_grid("relu+tanh"),),
        3_000,
    ),
    gallery=signs_drawing("signs as they came out, ReLU + tanh"),
    findings=signs,
    pictures_of="CIFAR-10",
)
