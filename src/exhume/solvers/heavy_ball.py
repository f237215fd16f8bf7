"""Heavy-ball steps (Polyak 1964) for the span equation: preconditioned gradients, and a share of the last step."""

from __future__ import annotations

import torch

from exhume.solvers.preconditioner import preconditioner_at
from exhume.span import Point, Span

# On as many coordinates as unknowns the preconditioned Gauss-Newton matrix has eigenvalues up to 4 (Marchenko & Pastur
# 1967), and steps are stable up to (1 + share) / 2 times the gradient: this is as bold as fresh subsets allow.
_RATE, _SHARE = 0.7, 0.3


def momentum_step(
    span: Span, point: Point, velocity: torch.Tensor, damping: float, radius: float | None
) -> torch.Tensor:
    """The next step from a point, given the last one; it is not tested. One pass.

    In two passes, with that of the point, it gains what a conjugate-gradient step does in two, and never has to begin
    again at a new point.
    """
    preconditioner = preconditioner_at(span, point, damping, radius)
    gained = preconditioner.solve(preconditioner.restrict(span.gradient(point)))
    return _SHARE * preconditioner.restrict(velocity) + _RATE * gained
