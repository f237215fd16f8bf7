"""Figure 2: the features of the training data are spanned by those of the reconstruction, CIFAR-10."""

from __future__ import annotations

from exhume.figures.base import Figure, Scale
from exhume.figures.fig01 import CURVE_LAPTOP, CURVE_PAPER
from exhume.figures.findings import span_inclusion
from exhume.figures.panels import threshold_drawing

FIGURE = Figure(
    name="fig2",
    title="true features in the span of the recovered ones, CIFAR-10",
    shows="Reconstruction error and the residual of the true features outside the span of the recovered ones, "
    "against p, in the setting of Figure 1.",
    claim="The residual is large until p passes dn and then falls together with the error; for p up to n it is zero "
    "for a trivial reason.",
    laptop=Scale(
        "the curve of Figure 1: CIFAR-10 frogs and trucks at 8x8 (d = 192), n = 20, p from 10 to 10dn, 3 seeds, "
        "descent of at most 1,000 steps, exact of at most 4,000 passes",
        CURVE_LAPTOP,
        4,
    ),
    paper=Scale(
        "the curve of Figure 1: CIFAR-10 frogs and trucks (d = 3072), n = 100, p from 50 to 10dn, 4 seeds, descent "
        "until its loss is 1e-7",
        CURVE_PAPER,
        20_000,
    ),
    draw=threshold_drawing(lambda record: "random features on CIFAR-10", show=("error", "orthogonal_residual")),
    findings=span_inclusion,
)
