"""The preconditioner of Gauss-Newton steps: the inverse of what their matrix concentrates on, and the damping."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from exhume.solvers.sphere import tangent
from exhume.span import Point, Span

# Keeps the damping of rows with tiny coefficients positive. It must stay tiny: at 1e-3 such rows, the hidden samples,
# no longer move.
_DAMPING_FLOOR = 1e-8


@dataclass(frozen=True)
class Preconditioner:
    """The inverse of the damped mean Gauss-Newton matrix H (x) I at a point, over directions that steps may take.

    Attributes:
        point: where.
        inverse: (H + damping diag(H))^-1, (n, n).
        ridge: the damping of every row, (n + j, 1).
        linear_scale: V^T V at its mean, of the rows of a linear part.
        on_sphere: whether the samples keep their norms.
    """

    point: Point
    inverse: torch.Tensor
    ridge: torch.Tensor
    linear_scale: float
    on_sphere: bool

    def restrict(self, rows: torch.Tensor) -> torch.Tensor:
        """The part of a direction (n + j, d) that steps may take."""
        return tangent(self.point.rows, rows, self.point.num_samples) if self.on_sphere else rows

    def solve(self, rows: torch.Tensor) -> torch.Tensor:
        """The inverse applied to a gradient (n + j, d)."""
        count = self.point.num_samples
        solved = self.inverse @ rows[:count]
        if len(rows) > count:
            solved = torch.cat([solved, rows[count:] / self.linear_scale])
        return self.restrict(solved)


def preconditioner_at(span: Span, point: Point, damping: float, radius: float | None) -> Preconditioner:
    """The preconditioner at a point of the span equation.

    Args:
        damping: in units of the diagonal of H.
        radius: norm that the samples keep; None lets it change.
    """
    mean = span.mean_normal(point)
    diagonal = mean.diagonal()
    scale = float(diagonal.mean()) or 1.0  # all coefficients may vanish on a small subset
    added = damping * (diagonal + _DAMPING_FLOOR * scale)
    inverse = torch.linalg.inv(mean + torch.diag(added + 1e-10 * scale)).to(point.rows)
    ridge = added.to(point.rows)[:, None]
    linear_scale = span.features.num_features / span.features.input_dim
    if span.num_linear:
        ridge = torch.cat([ridge, ridge.new_full((span.num_linear, 1), 1e-6 * linear_scale)])
    return Preconditioner(point, inverse, ridge, linear_scale, radius is not None)
