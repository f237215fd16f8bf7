"""The protocol of equations for the unknown samples: all that solvers and the certificate know of them.

An equation has a residual r(X) = P(X) Theta over the unknown rows X. It is linear in further coefficients, which are
optimal for every X and so projected out (variable projection, Golub & Pereyra 1973): P projects onto the complement of
what they can explain. J D is the change of the explained part along D; the residual changes by -P J D in Kaufman's form
(1975).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

from exhume.equation.norms import Norms


@dataclass(frozen=True)
class Point:
    """An equation evaluated at a candidate.

    Attributes:
        rows: the unknowns (n + j, d): the samples, and below them other rows that are solved for jointly.
        num_samples: n.
        coefficients: A (n, k), optimal for the rows.
        residual: what they leave of Theta; where processes share the equations, those of this one.
        loss: the residual's squared norm, over the squared norm that the equation measures by.
    """

    rows: torch.Tensor
    num_samples: int
    coefficients: torch.Tensor
    residual: torch.Tensor
    loss: float

    @property
    def samples(self) -> torch.Tensor:
        """X (n, d)."""
        return self.rows[: self.num_samples]


AnyPoint = TypeVar("AnyPoint", bound=Point)


class NormalSystem(Protocol):
    """(J^T P J + diag(ridge)) D = J^T P Theta over the directions D that the norms allow, for conjugate gradients.

    Its unknowns are D, or D and more, whatever form is applied fastest.
    """

    @property
    def rhs(self) -> torch.Tensor:
        """The right side: minus half the gradient of the squared residual, projected, as unknowns."""

    @property
    def ridge(self) -> torch.Tensor:
        """What damping adds to the diagonal, for every row: (n + j, 1)."""

    def apply(self, unknowns: torch.Tensor) -> torch.Tensor:
        """The left side."""

    def precondition(self, unknowns: torch.Tensor) -> torch.Tensor:
        """Near the inverse of the left side."""

    def from_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Unknowns for a right side (n + j, d)."""

    def to_rows(self, unknowns: torch.Tensor) -> torch.Tensor:
        """D (n + j, d) of the unknowns."""

    def agree(self, decision: bool) -> bool:
        """The same decision in all processes that share the equation, as rounding may differ between them."""


class Equation(Protocol[AnyPoint]):
    """What the unknown samples must satisfy."""

    @property
    def num_equations(self) -> int:
        """How many numbers determine the samples."""

    @property
    def squared_norm(self) -> float:
        """What losses are relative to."""

    def independent_outputs(self, point: AnyPoint) -> tuple[int, int]:
        """How many outputs have equations of their own, and how many of them the residual leaves clear.

        All outputs where equations are not told apart by them.
        """

    def without_part(self, part: int, parts: int) -> Equation[Any] | None:
        """The same equation without one of so many parts of its equations; None if it cannot be divided."""

    def at(self, rows: torch.Tensor) -> AnyPoint:
        """The equation at a candidate, its coefficients fitted."""

    def jacobian(self, point: AnyPoint, directions: torch.Tensor) -> torch.Tensor:
        """J D, the change of the explained part along directions D (n + j, d); shaped as the residual."""

    def dependence(self, point: AnyPoint, directions: torch.Tensor) -> tuple[torch.Tensor, int | None]:
        """J D, and how many equations the sample with the fewest has for itself; None if they are not told apart."""

    def adjoint(self, point: AnyPoint, change: torch.Tensor) -> torch.Tensor:
        """The adjoint of `jacobian`: shaped as the residual -> (n + j, d)."""

    def project(self, point: AnyPoint, change: torch.Tensor) -> torch.Tensor:
        """P: what coefficients cannot explain of a change shaped as the residual."""

    def squared_size(self, change: torch.Tensor) -> float:
        """The squared norm of something shaped as the residual, over all equations, wherever they are held."""

    def normal_system(self, point: AnyPoint, damping: float, norms: Norms) -> NormalSystem:
        """The linear system of a Gauss-Newton step; `damping` is in units of the diagonal of its matrix."""

    def contributions(self, point: AnyPoint) -> torch.Tensor:
        """For every sample the increase of the loss when it is removed and coefficients are fitted again, (n,)."""

    def cancellation(self, point: AnyPoint) -> float:
        """How much larger the samples' terms, or Theta, are than what losses are relative to; rounding grows by it."""
