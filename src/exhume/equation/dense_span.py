"""The span equation with its Jacobian written out, for few unknowns that must be found to the last digit.

`Span` solves by the Gram matrix of the features and by conjugate gradients. Features of smooth maps are nearly
dependent: their Gram matrix has the squared condition number, and conjugate gradients take many steps. Here a QR
factorisation replaces the first and a Cholesky factorisation of J^T P J the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from exhume.equation.normal_system import DenseNormalSystem
from exhume.equation.norms import Norms
from exhume.equation.span import Span, SpanPoint

# Share of the largest diagonal entry of R that smaller ones are raised to, so that rows that coincide can be solved.
_LEAST_PIVOT = 1e-14


@dataclass(frozen=True)
class DensePoint(SpanPoint):
    """The span equation at a candidate; the columns of `basis` (p, m + n) span features of known and other samples."""

    basis: torch.Tensor


class DenseSpan(Span):
    """Theta = A^T Phi(X), with features of known samples beside those of X; neither nuisance nor several processes."""

    def at(self, rows: torch.Tensor) -> DensePoint:
        """Solves min over A of ||Theta - A^T Phi(X)||^2 at the rows. One pass."""
        at = self.features.linearise(rows, self._inactive_slope)
        known = 0 if self.fixed is None else len(self.fixed)
        columns = at.features if self.fixed is None else torch.cat([self.fixed.to(at.features), at.features])
        basis, triangle = torch.linalg.qr(columns.T)  # (p, m + n), (m + n, m + n)
        pivots = triangle.diagonal()
        least = _LEAST_PIVOT * float(pivots.abs().max()) or 1.0
        pivots[pivots.abs() < least] = least
        explained = self.displacement @ basis  # (k, m + n)
        residual = self.displacement - explained @ basis.T
        residual = residual - (residual @ basis) @ basis.T  # once more, against rounding
        coefficients = torch.linalg.solve_triangular(triangle, explained.T, upper=True)[known:]
        loss = self.squared_size(residual) / self.squared_norm
        factor = triangle[known:, known:].T.contiguous()
        return DensePoint(rows, len(rows), coefficients, residual, loss, at, factor, None, None, basis)

    def project(self, point: SpanPoint, change: torch.Tensor) -> torch.Tensor:
        """P change, (k, p): what the features at the point do not span."""
        assert isinstance(point, DensePoint)
        return change - (change @ point.basis) @ point.basis.T

    def dense_jacobian(self, point: SpanPoint) -> torch.Tensor:
        """P J, (k p, n, d). As many passes as inputs."""
        rows = point.rows
        units = torch.eye(rows.shape[1]).to(rows)
        moved = torch.stack([point.linearised.jvp(unit.expand_as(rows).contiguous()) for unit in units], 1)  # (n, d, p)
        change = point.coefficients.T[:, :, None, None] * moved  # (k, n, d, p)
        return self.project(point, change).permute(0, 3, 1, 2).reshape(-1, *rows.shape)

    def normal_system(self, point: SpanPoint, damping: float, norms: Norms) -> DenseNormalSystem:  # type: ignore[override]
        """The linear system of a Gauss-Newton step, its matrix factorised."""
        return DenseNormalSystem(self.dense_jacobian(point), point, damping, norms)
