"""Gradient descent with momentum on a product of spheres, as in the paper's appendix D."""

from __future__ import annotations

import torch

from exhume.equation.norms import FixedNorm


def sphere_descent_step(
    samples: torch.Tensor,
    velocity: torch.Tensor,
    gradient: torch.Tensor,
    *,
    step_size: float,
    momentum: float,
    sphere: FixedNorm,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The next samples (n, d) and velocity: v <- momentum v + g, x <- x - step v, x <- radius x / ||x||.

    The first step starts from the samples as they are given (the paper's Gaussian start is not normalised), and the
    gradient is not made tangent: both as in appendix D.
    """
    velocity = velocity.mul(momentum).add_(gradient)
    return sphere.retract(samples.sub(velocity, alpha=step_size)), velocity
