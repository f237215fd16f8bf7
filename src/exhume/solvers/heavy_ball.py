"""Heavy-ball steps (Polyak 1964): preconditioned gradients, and a share of the last step."""

from __future__ import annotations

import torch

from exhume.equation.norms import Norms
from exhume.equation.protocol import AnyPoint, Equation

# On as many coordinates as unknowns the preconditioned Gauss-Newton matrix has eigenvalues up to 4 (Marchenko & Pastur
# 1967), and steps are stable up to (1 + share) / 2 times the gradient: this is as bold as fresh subsets allow.
_RATE, _SHARE = 0.7, 0.3


def momentum_step(
    equation: Equation[AnyPoint], point: AnyPoint, velocity: torch.Tensor, damping: float, norms: Norms
) -> torch.Tensor:
    """The next step from a point, given the last one; it is not tested. One pass.

    In two passes, with that of the point, it gains what a conjugate-gradient step does in two, and never has to begin
    again at a new point.
    """
    system = equation.normal_system(point, damping, norms)
    gained = system.to_rows(system.precondition(system.rhs))
    return _SHARE * norms.project_tangent(point.rows, velocity, point.num_samples) + _RATE * gained
