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
    agree: Callable[[float], float] = float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Solves operator(x) = goal for a symmetric positive operator, from x = 0.

    Args:
        operator, preconditioner: symmetric, positive; the second near the first's inverse.
        max_steps: applications of the operator at most.
        tolerance: stop when the residual has shrunk by this factor in the preconditioner's norm.
        agree: makes a number that several processes computed alike the same in all, so that they stop together.

    Returns:
        x and the residual goal - operator(x).
    """
    solution, residual = torch.zeros_like(goal), goal.clone()
    direction = preconditioned = preconditioner(residual)
    strength = first = agree(float((residual * preconditioned).sum()))
    for _ in range(max_steps):
        image = operator(direction)
        curvature = agree(float((direction * image).sum()))
        if not curvature > 0:
            break
        solution = solution.add(direction, alpha=strength / curvature)
        residual = residual.sub(image, alpha=strength / curvature)
        preconditioned = preconditioner(residual)
        previous, strength = strength, agree(float((residual * preconditioned).sum()))
        if not strength > tolerance**2 * first:
            break
        direction = preconditioned.add(direction, alpha=strength / previous)
    return solution, residual
