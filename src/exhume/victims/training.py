"""Training of linear heads: closed forms and descent, all in the n x n Gram matrix of the features.

A head trained from zero stays in the span of the training features, theta = Phi^T a. Tracking a instead of theta gives
the same solution, or the same trajectory, at a cost that does not grow with the number of features.
"""

from __future__ import annotations

import torch

from exhume.errors import InputError

# Stop the logistic descent when a step changes the coefficients by less than this share: float64 has no more to give.
_STALLED = 1e-15
_LOOK_EVERY = 100


def ridge_coefficients(gram: torch.Tensor, labels: torch.Tensor, ridge: float) -> torch.Tensor:
    """a with theta = Phi^T a minimising mean (Phi theta - Y)^2 + ridge ||theta||^2: Eq. (169), or Eq. (2) if ridge = 0.

    Args:
        gram: Phi Phi^T (n, n), float64.
        labels: Y (n, k).
        ridge: lambda; with 0 the minimum-norm solution Phi^+ Y, also where Phi Phi^T is singular.
    """
    if ridge == 0:
        return torch.linalg.pinv(gram, hermitian=True, rtol=1e-13) @ labels
    shifted = gram + len(gram) * ridge * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    return torch.linalg.solve(shifted, labels)


def logistic_coefficients(gram: torch.Tensor, labels: torch.Tensor, step_size: float, max_steps: int) -> torch.Tensor:
    """Full-batch gradient descent from zero on sum_i log(1 + exp(-y_i f_i)), in coefficients: a <- a + step y s(-y f).

    Args:
        gram: Phi Phi^T (n, n).
        labels: Y (n, k) of -1 and +1.
        step_size: the paper takes 10^-3. Above 8 / lambda_max(gram) the loss rises at first; on separable data it
            comes down all the same.
        max_steps: the paper takes 10^6.
    """
    if not step_size > 0:
        raise InputError(f"step size must be positive, got {step_size}")
    coefficients = torch.zeros_like(labels)
    change, pull, against = torch.empty_like(labels), step_size * labels, -labels
    for step in range(max_steps):
        # In place: a million steps on a small matrix cost mostly the overhead of the calls.
        torch.mm(gram, coefficients, out=change).mul_(against).sigmoid_().mul_(pull)
        coefficients += change
        if step % _LOOK_EVERY == 0 and change.abs().max() <= _STALLED * coefficients.abs().max():
            break
    return coefficients
