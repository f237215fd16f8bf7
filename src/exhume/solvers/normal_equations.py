"""The normal equations of a Gauss-Newton step, for conjugate gradients, in the form that reads V least often."""

from __future__ import annotations

import torch

from exhume.solvers.conjugate_gradient import Operator
from exhume.span import Point, Span


class NormalEquations:
    """(J^T P J + ridge) D = goal, over D in the tangent space.

    P stands between J and J^T, so that applying them reads V twice. P is there because the coefficients are optimal for
    every D: with their change C (n, k) as a further unknown, [J Phi^T]^T [J Phi^T] (D, C) = (goal, 0) has the same D
    and is applied in one read. Preconditioned by Phi Phi^T for C it takes about as many steps. This form is used where
    V is generated for every read.

    Args:
        span, point: the equation, and where it is linearised.
        precondition: near the inverse of the operator on D.
        flat: projects onto the tangent space.
        ridge: added to the diagonal, (n + j, 1), or 0.
    """

    def __init__(
        self, span: Span, point: Point, precondition: Operator, flat: Operator, ridge: torch.Tensor | float = 0.0
    ) -> None:
        self._span, self._point, self._precondition, self._flat, self._ridge = span, point, precondition, flat, ridge
        self._jointly = span.can_sweep(point)

    def goal(self, rows: torch.Tensor) -> torch.Tensor:
        """The right side for a goal (n + j, d)."""
        return self._joined(rows, torch.zeros_like(self._point.coefficients)) if self._jointly else rows

    def rows(self, unknowns: torch.Tensor) -> torch.Tensor:
        """D (n + j, d) of the unknowns."""
        return unknowns[: self._point.rows.numel()].view_as(self._point.rows) if self._jointly else unknowns

    def operator(self, unknowns: torch.Tensor) -> torch.Tensor:
        """The left side. Two passes."""
        rows = self.rows(unknowns)
        if not self._jointly:
            return self._flat(self._span.normal(self._point, rows)) + self._ridge * rows
        image, moments = self._span.sweep(self._point, rows, self._coefficients(unknowns))
        return self._joined(self._flat(image) + self._ridge * rows, moments)

    def precondition(self, unknowns: torch.Tensor) -> torch.Tensor:
        """Near the inverse of the left side."""
        solved = self._precondition(self.rows(unknowns))
        if not self._jointly:
            return solved
        weights = torch.cholesky_solve(self._coefficients(unknowns).double(), self._point.gram_factor)
        return self._joined(solved, weights.to(solved))

    def _coefficients(self, unknowns: torch.Tensor) -> torch.Tensor:
        return unknowns[self._point.rows.numel() :].view_as(self._point.coefficients)

    def _joined(self, rows: torch.Tensor, coefficients: torch.Tensor) -> torch.Tensor:
        return torch.cat([rows.reshape(-1), coefficients.reshape(-1)])
