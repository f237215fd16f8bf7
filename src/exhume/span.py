"""The span equation Theta = A^T Phi(X): the projected residual of a candidate X and its gradient.

Notation of the paper: Phi (n, p) features of the candidate, theta the displacement (here Theta, k rows),
P_perp the projector onto the complement of the rows of Phi, alpha the coefficients (here A, one column an output).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from exhume.features import Linearisation


@dataclass(frozen=True)
class Projection:
    """The best coefficients for given features: min over A of ||Theta - A^T Phi||_F^2.

    Attributes:
        coefficients: A (n, k), solving (Phi Phi^T) A = Phi Theta^T.
        residual: P_perp Theta = Theta - A^T Phi, (k, p).
        loss: ||P_perp Theta||_F^2 / ||Theta||_F^2, the normalised L(X) of Eq. (11), a float64 scalar tensor.
    """

    coefficients: torch.Tensor
    residual: torch.Tensor
    loss: torch.Tensor


def project(features: torch.Tensor, displacement: torch.Tensor) -> Projection:
    """Solves min_A ||Theta - A^T Phi||_F^2, the inner problem of L(X) = ||P_perp Theta||^2, Eq. (11).

    The loss is taken from the residual itself; the paper's expansion theta^T theta - theta^T Phi^T alpha cancels to
    about 1e-7 in float32 and could not show convergence beyond that.

    Args:
        features: Phi (n, p).
        displacement: Theta (k, p).
    """
    gram = (features @ features.T).double()  # (n, n)
    moments = (features @ displacement.T).double()  # (n, k)
    coefficients = _solve_gram(gram, moments).to(features.dtype)
    residual = torch.addmm(displacement, coefficients.T, features, alpha=-1)
    loss = residual.square().sum(dtype=torch.float64) / displacement.square().sum(dtype=torch.float64)
    return Projection(coefficients, residual, loss)


def gradient(linearisation: Linearisation, projection: Projection, squared_norm: torch.Tensor) -> torch.Tensor:
    """Gradient of the normalised loss in X: -2 J_i^T (A P_perp Theta)_i / ||Theta||^2, (n, d). One feature pass.

    The dependence of A on X drops out because A is optimal (the envelope theorem; variable projection).
    """
    cotangents = (projection.coefficients * (-2 / squared_norm)) @ projection.residual  # (n, p), rank k
    return linearisation.vjp(cotangents)


def _solve_gram(gram: torch.Tensor, moments: torch.Tensor) -> torch.Tensor:
    """gram^+ moments by Cholesky, or by its eigenvalues where rows coincide and it is singular."""
    factor, info = torch.linalg.cholesky_ex(gram)
    if int(info) == 0:
        return torch.cholesky_solve(moments, factor)
    return torch.linalg.pinv(gram, hermitian=True) @ moments
