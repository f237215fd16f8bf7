"""Figure 3: the law on synthetic data, for several (d, n)."""

from __future__ import annotations

from exhume.figures.base import Figure, Scale
from exhume.figures.panels import sizes, threshold_drawing, threshold_findings
from exhume.figures.protocols import below_and_above, descent, exact, sphere
from exhume.sweep.grid import Grid

_RATIOS: list[float] = [0.1, 0.3, 0.5, 1, 1.5, 2, 5, 10, 20]
SMALL_LAPTOP = below_and_above(
    "sphere d = 30, n = 20", sphere(30, 20), [10, 20], _RATIOS, [descent(4000), exact(8000)], seeds=3
)
MIDDLE_LAPTOP = below_and_above(
    "sphere d = 100, n = 20", sphere(100, 20), [10, 20], _RATIOS[:-1], [descent(1500), exact(8000)], seeds=3
)
_LARGE_LAPTOP = Grid(
    name="sphere d = 100, n = 100",
    data=sphere(100, 100),
    ratio=[0.01, 0.1, 0.5, 3, 5],
    attack=[descent(500), exact(3000)],
    seeds=2,
)
_PAPER_ATTACKS = [descent(), exact()]
SMALL_PAPER = below_and_above("sphere d = 30, n = 20", sphere(30, 20), [10, 20], _RATIOS, _PAPER_ATTACKS, seeds=10)
MIDDLE_PAPER = below_and_above("sphere d = 100, n = 20", sphere(100, 20), [10, 20], _RATIOS, _PAPER_ATTACKS, seeds=10)
_LARGE_PAPER = below_and_above(
    "sphere d = 100, n = 100", sphere(100, 100), [50, 100], _RATIOS, _PAPER_ATTACKS, seeds=10
)


FIGURE = Figure(
    name="fig3",
    title="thresholds on the sphere",
    shows="Training loss and reconstruction error of random features against p, for data uniform on the sphere with "
    "labels of a noisy linear model, for several (d, n).",
    claim="Two thresholds for every (d, n): labels are fitted from p = n on, data are reconstructed once p exceeds dn.",
    laptop=Scale(
        "sphere (d, n) = (30, 20) with p from 10 to 20dn and (100, 20) with p from 10 to 10dn, 3 seeds each, descent "
        "of at most 4,000 and 1,500 steps, exact of at most 8,000 passes; (100, 100) at 0.01, 0.1, 0.5, 3 and 5dn, 2 "
        "seeds, descent of at most 500 steps, exact of at most 3,000 passes",
        (*SMALL_LAPTOP, *MIDDLE_LAPTOP, _LARGE_LAPTOP),
        6,
    ),
    paper=Scale(
        "sphere (d, n) = (30, 20), (100, 20), (100, 100), p from n/2 to 20dn, 10 seeds, descent with step 20 until its "
        "loss is 1e-7",
        (*SMALL_PAPER, *MIDDLE_PAPER, *_LARGE_PAPER),
        5_000,
    ),
    draw=threshold_drawing(sizes),
    findings=threshold_findings(sizes),
)
