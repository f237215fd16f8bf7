"""Preconditioned conjugate gradients (Hestenes & Stiefel 1952) for an operator that is only applied."""

from __future__ import annotations

from collections.abc import Callable

import torch

Operator = Callable[[torch.Tensor], torch.Tensor]


def conjugate_gradient(
    operator: Operator,
    goal: torch.Tensor,
    preconditioner: Operator,
    *,
    max_steps: int,
    tolerance: float,
    agree: Callable[[bool], bool] = bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Solves operator(x) = goal for a symmetric positive operator, from x = 0.

    Args:
        operator, preconditioner: symmetric, positive; the second near the first's inverse.
        max_steps: applications of the operator at most.
        tolerance: stop when the residual has shrunk by this factor in the preconditioner's norm.
        agree: makes a decision of several processes the same in all, as rounding may differ between them.

    Returns:
        x and the residual goal - operator(x).
    """
    solution, residual = torch.zeros_like(goal), goal.clone()
    direction = preconditioned = preconditioner(residual)
    strength = first = previous = float((residual * preconditioned).sum())
    for _ in range(max_steps):
        image = operator(direction)
        curvature = float((direction * image).sum())
        if curvature > 0:
            solution = solution.add(direction, alpha=strength / curvature)
            residual = residual.sub(image, alpha=strength / curvature)
            preconditioned = preconditioner(residual)
            previous, strength = strength, float((residual * preconditioned).sum())
        if not agree(curvature > 0 and strength > tolerance**2 * first):
            break
        direction = preconditioned.add(direction, alpha=strength / previous)
    return solution, residual
