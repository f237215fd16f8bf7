"""Linear systems of Gauss-Newton steps.

`SpanNormalSystem` only applies J, and reads V as rarely as possible; `DenseNormalSystem` stores J;
`ProductNormalSystem` applies the J of any equation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

import torch

from exhume.equation.norms import Norms
from exhume.equation.protocol import AnyPoint, Equation, Point

if TYPE_CHECKING:
    from exhume.equation.span import Span, SpanPoint

# Keeps the damping of rows with tiny coefficients positive. It must stay tiny: at 1e-3 such rows, the hidden samples,
# no longer move.
_DAMPING_FLOOR = 1e-8


class SpanNormalSystem:
    """(J^T P J + damping diag(H)) D = J^T P Theta of the span equation, over D in the tangent space.

    Applying J, P and J^T reads V twice. The joint form needs one read: with the change C (n, k) of the coefficients as
    a further unknown, [J Phi^T]^T [J Phi^T] (D, C) = (rhs, 0) has the same D. Preconditioned by Phi Phi^T for C it
    takes about as many steps. It is used where V is generated for every read.

    The preconditioner of D is the inverse of H + damping diag(H): J^T P J concentrates on H ⊗ I, with H (n, n) the
    argument `mean`, from `Span.mean_normal`. Rows of a linear part have V^T V at its mean.
    """

    def __init__(self, span: Span, point: SpanPoint, damping: float, norms: Norms, mean: torch.Tensor) -> None:
        self._span, self._point, self._norms = span, point, norms
        self._weights = span.weights_of(point)
        diagonal = mean.diagonal()
        scale = float(diagonal.mean()) or 1.0  # all coefficients may vanish on a small subset
        added = damping * (diagonal + _DAMPING_FLOOR * scale)
        # The undamped system is that of the certificate: its preconditioner is as exact as rounding allows.
        least = 1e-10 * scale if damping else 1e-14 * scale + torch.finfo(point.rows.dtype).eps * diagonal
        self._inverse = torch.linalg.inv(mean + torch.diag(added + least)).to(point.rows)
        self._linear_scale = span.features.num_features / span.features.input_dim
        self.ridge = added.to(point.rows)[:, None]
        if span.num_linear:
            linear = self.ridge.new_full((span.num_linear, 1), 1e-6 * self._linear_scale)
            self.ridge = torch.cat([self.ridge, linear])
        self.agree = span.coordinates.broadcast_decision
        self._jointly = span.prefers_joint_form(point)
        gradient = point.linearised.weighted_vjp(self._weights, point.residual)  # one pass
        self.rhs = self.from_rows(self._project_tangent(gradient))

    def from_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Unknowns for a right side (n + j, d)."""
        return self._joined(rows, torch.zeros_like(self._point.coefficients)) if self._jointly else rows

    def to_rows(self, unknowns: torch.Tensor) -> torch.Tensor:
        """D (n + j, d) of the unknowns."""
        return unknowns[: self._point.rows.numel()].view_as(self._point.rows) if self._jointly else unknowns

    def apply(self, unknowns: torch.Tensor) -> torch.Tensor:
        """The left side. Two passes."""
        rows, at = self.to_rows(unknowns), self._point.linearised
        if not self._jointly:
            # `Span.project`, one call less deep: the products of a search are at most ten calls away.
            inside = self._point.features, self._point.nuisance_of_features, self._point.gram_factor
            change = self._span.decompose(*inside, at.weighted_jvp(self._weights, rows))[0]
            return self._project_tangent(at.weighted_vjp(self._weights, change)) + self.ridge * rows
        image, moments = at.normal_product(self._weights, rows, self._coefficients(unknowns))
        return self._joined(self._project_tangent(image) + self.ridge * rows, moments)

    def precondition(self, unknowns: torch.Tensor) -> torch.Tensor:
        """Near the inverse of the left side."""
        rows, count = self.to_rows(unknowns), self._point.num_samples
        solved = self._inverse @ rows[:count]
        if rows.shape[0] > count:
            solved = torch.cat([solved, rows[count:] / self._linear_scale])
        solved = self._project_tangent(solved)
        if not self._jointly:
            return solved
        weights = torch.cholesky_solve(self._coefficients(unknowns).double(), self._point.gram_factor)
        return self._joined(solved, weights.to(solved))

    def _project_tangent(self, rows: torch.Tensor) -> torch.Tensor:
        return self._norms.project_tangent(self._point.rows, rows, self._point.num_samples)

    def _coefficients(self, unknowns: torch.Tensor) -> torch.Tensor:
        return unknowns[self._point.rows.numel() :].view_as(self._point.coefficients)

    def _joined(self, rows: torch.Tensor, coefficients: torch.Tensor) -> torch.Tensor:
        return torch.cat([rows.reshape(-1), coefficients.reshape(-1)])


class _SystemOfRows:
    """A system whose unknowns are the directions themselves, in one process."""

    _point: Point
    _norms: Norms

    def from_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """The rows themselves."""
        return rows

    def to_rows(self, unknowns: torch.Tensor) -> torch.Tensor:
        """The unknowns themselves."""
        return unknowns

    def agree(self, decision: bool) -> bool:
        """The decision: one process holds all of the equation."""
        return decision

    def _project_tangent(self, rows: torch.Tensor) -> torch.Tensor:
        return self._norms.project_tangent(self._point.rows, rows, self._point.num_samples)


class ProductNormalSystem(_SystemOfRows, Generic[AnyPoint]):
    """(J^T P J + damping diag(H)) D = J^T P Theta of any equation, which applies J, P and J^T in turn.

    H holds the mean diagonal of J^T P J of every row: proportional to `strength` (n, 1), which is the squared norm of a
    sample's coefficients, and scaled by a random probe.
    """

    def __init__(
        self, equation: Equation[AnyPoint], point: AnyPoint, damping: float, norms: Norms, strength: torch.Tensor
    ) -> None:
        self._equation, self._at, self._point, self._norms = equation, point, point, norms
        strength = strength + _DAMPING_FLOOR * strength.mean() + torch.finfo(strength.dtype).tiny
        signs = torch.randint(0, 2, point.rows.shape, generator=torch.Generator().manual_seed(0)) * 2 - 1
        probe = signs.to(point.rows) / strength.sqrt()  # every row moves the explained part by about as much
        image = equation.project(point, equation.jacobian(point, probe))
        self._mean = strength * max(equation.squared_size(image) / point.rows.numel(), 1e-30)  # (n, 1)
        self.ridge = damping * self._mean
        self.rhs = self._project_tangent(equation.adjoint(point, point.residual))

    def apply(self, unknowns: torch.Tensor) -> torch.Tensor:
        """The left side."""
        change = self._equation.project(self._at, self._equation.jacobian(self._at, unknowns))
        return self._project_tangent(self._equation.adjoint(self._at, change)) + self.ridge * unknowns

    def precondition(self, unknowns: torch.Tensor) -> torch.Tensor:
        """The inverse of the mean diagonal."""
        return self._project_tangent(unknowns / (self._mean + self.ridge))


class DenseNormalSystem(_SystemOfRows):
    """The same for a Jacobian that is written out, P J (e, n, d): equations with few unknowns."""

    def __init__(self, jacobian: torch.Tensor, point: Point, damping: float, norms: Norms) -> None:
        self._point, self._norms = point, norms
        flat = jacobian.flatten(1)
        self._matrix = flat.T @ flat  # (n d, n d)
        mean = self._matrix.diagonal().view_as(point.rows).mean(1, keepdim=True)  # (n, 1)
        self.ridge = damping * mean
        eps = torch.finfo(flat.dtype).eps * float(mean.mean())
        added = (self.ridge + eps).expand_as(point.rows).reshape(-1)
        self._factor = torch.linalg.cholesky_ex(self._matrix + torch.diag(added))[0]
        self.rhs = self._project_tangent((point.residual.flatten() @ flat).view_as(point.rows))

    def apply(self, unknowns: torch.Tensor) -> torch.Tensor:
        """The left side."""
        return self._project_tangent((self._matrix @ unknowns.reshape(-1)).view_as(unknowns)) + self.ridge * unknowns

    def precondition(self, unknowns: torch.Tensor) -> torch.Tensor:
        """The inverse of the left side, where norms are free."""
        return self._project_tangent(torch.cholesky_solve(unknowns.reshape(-1, 1), self._factor).view_as(unknowns))
