"""Preconditioned conjugate gradients (Hestenes & Stiefel 1952) for an operator that is only applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Operator = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class CGOptions:
    """How exactly a linear system is solved: applications of the operator at most, and the tolerance.

    The tolerance is the factor by which the residual must shrink in the preconditioner's norm.
    """

    max_steps: int = 10
    tolerance: float = 0.1


def conjugate_gradient(
    operator: Operator,
    rhs: torch.Tensor,
    preconditioner: Operator,
    options: CGOptions,
    agree: Callable[[bool], bool] = bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Solves operator(x) = rhs for a symmetric positive operator, from x = 0.

    Args:
        operator, preconditioner: symmetric, positive; the second near the first's inverse.
        options: when to stop.
        agree: makes a decision of several processes the same in all, as rounding may differ between them.

    Returns:
        x and the residual rhs - operator(x).
    """
    solution, residual = torch.zeros_like(rhs), rhs.clone()
    direction = preconditioned = preconditioner(residual)
    strength = first = previous = float((residual * preconditioned).sum())
    for _ in range(options.max_steps):
        image = operator(direction)
        curvature = float((direction * image).sum())
        if curvature > 0:
            solution = solution.add(direction, alpha=strength / curvature)
            residual = residual.sub(image, alpha=strength / curvature)
            preconditioned = preconditioner(residual)
            previous, strength = strength, float((residual * preconditioned).sum())
        if not agree(curvature > 0 and strength > options.tolerance**2 * first):
            break
        direction = preconditioned.add(direction, alpha=strength / previous)
    return solution, residual
