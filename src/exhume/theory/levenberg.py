"""Many small problems at once: samples on the sphere fitted to theta from given starts, all starts in one batch.

For the checks of the theory alone: dense, and with no remedy for local minima. The attacks have solvers of their own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from exhume.features import RandomFeatureMap
from exhume.measures import on_sphere
from exhume.theory.setting import entries

_STEPS = 100
_DAMPING, _LESS, _MORE = 1e-2, 0.3, 4.0
_LEAST_DAMPING = 1e-14
# A start is left alone once it is solved to rounding, or damped to steps that are.
_SOLVED, _STUCK = 1e-14, 1e8


def fit_samples(features: RandomFeatureMap, theta: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    """Solve min_{X, a} ||theta - sum_i a_i phi(x_i)||^2, ||x_i|| = sqrt(d), by Levenberg and Marquardt's method.

    Args:
        features: phi.
        theta: (p,).
        starts: samples to begin with, (b, n, d); coefficients begin at the best ones.

    Returns:
        The samples (b, n, d), and the relative residuals ||theta - ...|| / ||theta|| (b,).
    """
    matrix, norm = entries(features), theta.norm()  # (p, d)
    value, slope = features.activation.value, features.activation.slope
    samples, damping = starts.clone(), torch.full((len(starts),), _DAMPING, dtype=theta.dtype)
    phi = value(samples @ matrix.T)  # (b, n, p)
    weights = torch.linalg.lstsq(phi.transpose(1, 2), theta.expand(len(starts), -1)[..., None], driver="gelsd").solution
    weights = weights[..., 0]  # (b, n)
    left = theta - _combined(weights, phi)  # (b, p)
    for _ in range(_STEPS):
        active = ((left.norm(dim=1) > _SOLVED * norm) & (damping < _STUCK)).nonzero()[:, 0]
        if not len(active):
            break
        x, a, before = samples[active], weights[active], left[active]
        jacobian = _jacobian(x, a, slope(x @ matrix.T), phi[active], matrix)  # (active, p, n d + n)
        step = _damped_step(jacobian, before, damping[active])
        x = _on_spheres(x + step[:, : x[0].numel()].reshape(x.shape))
        a = a + step[:, x[0].numel() :]
        moved_phi = value(x @ matrix.T)
        after = theta - _combined(a, moved_phi)
        better = after.norm(dim=1) < before.norm(dim=1)  # (active,)
        damping[active] *= torch.where(better, _LESS, _MORE)
        kept = active[better]
        samples[kept], weights[kept], phi[kept], left[kept] = x[better], a[better], moved_phi[better], after[better]
        damping.clamp_(min=_LEAST_DAMPING)
    return samples, left.norm(dim=1) / norm


def _combined(weights: Tensor, phi: Tensor) -> Tensor:
    """sum_i a_i phi(x_i) of every start, (b, p)."""
    return (weights[:, None, :] @ phi)[:, 0]


def _jacobian(samples: Tensor, weights: Tensor, slopes: Tensor, phi: Tensor, matrix: Tensor) -> Tensor:
    """Of sum_i a_i phi(x_i), in directions along the spheres and in the coefficients: (b, p, n d + n)."""
    directions = samples / samples.norm(dim=2, keepdim=True)  # (b, n, d)
    along = matrix - (directions @ matrix.T)[..., None] * directions[:, :, None, :]  # (b, n, p, d)
    in_samples = ((weights[..., None] * slopes)[..., None] * along).transpose(1, 2)  # (b, p, n, d)
    return torch.cat((in_samples.flatten(2), phi.transpose(1, 2)), 2)


def _damped_step(jacobian: Tensor, left: Tensor, damping: Tensor) -> Tensor:
    """(J^T J + damping tr(J^T J) / size I)^-1 J^T left, (b, n d + n)."""
    normal = jacobian.transpose(1, 2) @ jacobian
    goal = (jacobian.transpose(1, 2) @ left[..., None])[..., 0]
    diagonal = normal.diagonal(dim1=1, dim2=2)
    diagonal += (damping * diagonal.mean(1))[:, None]  # in place, through the view
    return torch.linalg.solve(normal, goal)


def _on_spheres(samples: Tensor) -> Tensor:
    return on_sphere(samples.flatten(0, 1)).reshape(samples.shape)
