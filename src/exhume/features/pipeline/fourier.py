"""Random Fourier features cos(W x + b) (Rahimi & Recht 2007): one-layer features of any frequencies and phases.

Their scale does not matter: coefficients in the span equation absorb it.
"""

from __future__ import annotations

import math

import torch

from exhume.activations import Activation
from exhume.features.matrix import DenseMatrix
from exhume.features.one_layer import OneLayerMap


def _negative_sine(z: torch.Tensor) -> torch.Tensor:
    """Derivative of the cosine."""
    return -torch.sin(z)


def _cosine_kernel(cosines: torch.Tensor) -> torch.Tensor:
    """E[sin z_1 sin z_2] of standard Gaussians with these correlations."""
    return torch.sinh(cosines) * math.exp(-1.0)


COSINE = Activation("cos", torch.cos, _negative_sine, "even", kernel=_cosine_kernel)


def fourier_map(
    frequencies: torch.Tensor, phases: torch.Tensor | None, dtype: torch.dtype = torch.float64
) -> OneLayerMap:
    """phi(x) = cos(W x + b).

    Args:
        frequencies: W (p, d).
        phases: b (p,); None for none.
        dtype: to compute in.

    Examples:
        >>> import torch
        >>> fourier_map(torch.tensor([[1.0], [2.0]]), torch.tensor([0.0, 0.5])).forward(torch.tensor([[0.5]]))
        tensor([[0.8776, 0.0707]], dtype=torch.float64)
    """
    return OneLayerMap(DenseMatrix(frequencies), COSINE, dtype, offset=phases)
