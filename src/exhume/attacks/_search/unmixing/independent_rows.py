"""Samples behind a head of as many outputs as samples, by independent component analysis of the head's rows.

The rows of Theta = A^T Phi(X) span the features of the n samples. Over the coordinates h, a sample's features
act(v_h . x) are far from normally distributed, and those of different samples nearly independent, while their mixtures
are closer to normal: the n directions of largest |kurtosis| are the samples' features, up to sign and scale. It needs
no zeros, and many more coordinates than samples.
"""

from __future__ import annotations

import math

import torch

from exhume.attacks._base.output_tuning import IndependentTuning
from exhume.attacks._base.problem import Problem
from exhume.attacks._search.unmixing.feature_rows import solve_for_inputs


def independent_rows(problem: Problem, count: int) -> torch.Tensor:
    """Samples (n, d) by least squares V x = s on the independent components s of the head's rows."""
    tuning = problem.tuning.independent
    parts = independent_components(problem.target.displacement.double(), count, tuning)
    # Features of activations that are not odd are skewed upwards; the sign of odd ones is hidden in any case.
    parts = (parts * torch.where((parts**3).sum(1, keepdim=True) < 0, -1.0, 1.0)).to(problem.features.dtype)
    return problem.sphere.retract(solve_for_inputs(problem.one_layer, parts, torch.ones_like(parts), tuning.cg))


def independent_components(rows: torch.Tensor, count: int, tuning: IndependentTuning) -> torch.Tensor:
    """Combinations (n, p) of rows (k, p), of variance one, whose kurtoses are extreme.

    The symmetric fixed-point iteration for kurtosis (Hyvärinen & Oja 1997), from a rotation with a fixed seed.
    """
    spanned = torch.linalg.svd(rows, full_matrices=False)[2][:count]
    centred = spanned - spanned.mean(1, keepdim=True)
    white = torch.linalg.svd(centred, full_matrices=False)[2] * math.sqrt(rows.shape[1])
    drawn = torch.randn((count, count), generator=torch.Generator().manual_seed(0)).to(white)
    turn = torch.linalg.qr(drawn)[0]
    for _ in range(tuning.steps):
        parts = turn @ white
        left, _, right = torch.linalg.svd(parts**3 @ white.T / white.shape[1] - 3 * turn)
        last, turn = turn, left @ right
        if float((last * turn).sum(1).abs().min()) > 1 - tuning.still:
            break
    return turn @ white
