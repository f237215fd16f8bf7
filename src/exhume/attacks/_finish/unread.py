"""A check of samples against coordinates that the search did not read: they must fit those as well."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from exhume.attacks._base.problem import Problem


@dataclass(frozen=True)
class UnreadCheck:
    """How samples fit the unread coordinates.

    Attributes:
        unread: relative residual there, with the coefficients that fit what was read.
        confirms: whether that is no more than rounding, or than the residual of the others, up to a margin.
        residual, coefficients: relative residual and coefficients (n, k) fitted to all coordinates.
        outputs: of the model at the samples, (n, k).
    """

    unread: float
    confirms: bool
    residual: float
    coefficients: torch.Tensor
    outputs: torch.Tensor


def check_unread(problem: Problem, num_read: int, samples: torch.Tensor) -> UnreadCheck:
    """Fits samples to the first `num_read` coordinates and compares them with the others. One pass over all."""
    features = problem.features.with_dtype(samples.dtype)
    here = features.coordinates
    phi, theta = features.forward(samples), problem.target.displacement.to(samples.dtype)
    read, unread = here.local(slice(0, num_read)), here.local(slice(num_read, features.num_features))
    everywhere = slice(0, phi.shape[1])

    def fitted(columns: slice | torch.Tensor) -> torch.Tensor:
        """Coefficients (n, k), in two sweeps: the normal equations lose half the digits."""
        part, rhs = phi[:, columns], theta[:, columns]
        gram = here.sum((part @ part.T).double())
        weights = torch.zeros((len(samples), len(theta)), dtype=gram.dtype, device=gram.device)
        for _ in range(2):
            moments = here.sum((part @ (rhs - weights.to(rhs).T @ part).T).double())
            weights = weights + torch.linalg.solve(gram, moments)
        return weights.to(phi)

    def residual(weights: torch.Tensor, columns: slice | torch.Tensor) -> float:
        rest = theta[:, columns] - weights.T @ phi[:, columns]
        sizes = [part.square().sum(dtype=torch.float64) for part in (rest, theta[:, columns])]
        of_rest, of_theta = here.sum(torch.stack(sizes)).tolist()
        return math.sqrt(of_rest / of_theta) if of_theta else 0.0

    weights, of_all = fitted(read), fitted(everywhere)
    held_out = residual(weights, unread)
    limit = problem.tuning.schedule.unread_margin * max(
        residual(weights, read), torch.finfo(problem.target.displacement.dtype).eps
    )
    outputs = problem.target.outputs(phi)
    return UnreadCheck(held_out, held_out <= limit, residual(of_all, everywhere), of_all, outputs)
