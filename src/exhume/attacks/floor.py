"""The floor: when a residual above rounding is what noise or drift has left, rather than a bad minimum.

A row is worth what dropping it would add to the loss. In a bad minimum some row stands for no sample, and is worth no
more than what is left over; where every row is worth much more, each stands for a sample.
"""

from __future__ import annotations

import math

import torch

from exhume.span import Point, Span

# The relative residual at most, and the share at most of the least useful row's worth that the loss may amount to.
_MOST_RESIDUAL, _CLEAR_OF = 0.3, 0.25


def worths(point: Point) -> torch.Tensor:
    """For every sample what dropping it would add to ||P Theta||^2: a_i^2 / [(Phi Phi^T)^-1]_ii, (n,) float64."""
    inverse = torch.cholesky_inverse(point.gram_factor)
    return point.coefficients.double().square().sum(1) / inverse.diagonal()


def stands_clear(span: Span, point: Point, unknowns: int) -> bool:
    """Whether every sample stands clear of what is left, and that is little.

    Args:
        span: the equation.
        point: a minimum of its loss.
        unknowns: of samples and coefficients together. With few equations to spare a fit of anything leaves little, so
            that the loss must be the smaller.
    """
    surplus = 1 - unknowns / span.num_equations
    least = float(worths(point).min()) / span.squared_norm
    return math.sqrt(point.loss) < _MOST_RESIDUAL and point.loss < _CLEAR_OF * surplus * least
