"""Columns of a ReLU layer that are missing where others are known: they lie near a space of as many dimensions.

With columns C_K known, D = C_K Y_K + C_M Y_M. The zeros of a known column give its input y_k nearly, and the missing
inputs Y_M span the known space E, so that (D - C_K Y_K) E^+ = C_M Y_M E^+ has nearly the missing columns as its span.
There zeros are found although many neurons that an input leaves inactive at both ends were active in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch

from exhume.attacks._search.unmixing.columns import (
    Candidates,
    alternate,
    draw_weighting,
    fit_inputs,
    least_direction,
    narrow,
    settle,
    uneven,
)
from exhume.attacks._search.unmixing.mixture import Mixture, NearSpace, Tensor, Weighting, distinct

# Sizes of entries, over the mean, that are smoothed at the first step and at the last; the same of the slow steps near
# the space, and of those that leave it, which also end at the finest.
_COARSE, _FINEST, _CLOSE, _NEAR, _LEAVING = 0.3, 1e-5, 0.1, 1e-3, 0.03
# Cosine above which two starts have ended at the same vector, before its zeros are exact.
_SAME = 0.98
# Added to the diagonal before a factorisation, over its mean.
_RIDGE = 1e-13


def missing_columns(mixture: Mixture, vectors: Tensor, starts: int, generator: torch.Generator) -> Candidates:
    """Columns besides the known ones (m, n), from random inputs of the samples that are missing.

    A start alternates between an input and a column as in `search_columns`, but next to the space of missing columns.
    The sum of powers of the column's absolute values is then minimised near that space, first for this input, then for
    one that fits the column. Many starts end at the same vector: the last minimisation, which is slow and leaves the
    space in its second half, is made once for each that is different.
    """
    tuning, rank = mixture.tuning, mixture.rank

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand((starts, 1), generator=generator).to(mixture.basis)

    near, open_inputs = space_of_missing(mixture, vectors), mixture.open_inputs(vectors)
    space = NearSpace(torch.eye(rank).to(near) - near @ near.T, 10 ** uniform(*tuning.nearness)[:, 0])
    weighting = draw_weighting(mixture, starts, generator)
    unevenness = tuning.missing_unevenness * weighting.unevenness
    weighting = replace(weighting, slack=uniform(*tuning.missing_slack), unevenness=unevenness)
    inputs = torch.randn((starts, open_inputs.shape[1]), generator=generator).to(near) @ open_inputs.T
    found = torch.randn((starts, near.shape[1]), generator=generator).to(near) @ near.T
    found, inputs = alternate(mixture, open_inputs, (inputs, found), weighting, uniform(*tuning.levels), space)
    powers, least = uniform(*tuning.missing_powers), torch.full_like(inputs[:, :1], tuning.missing_powers[0])
    for each, strength in zip((powers, least), tuning.beside[:2], strict=True):
        weights = _weights(mixture, inputs, weighting, generator)
        space = replace(space, strength=torch.full_like(inputs[:, 0], strength))
        found = _shrink(mixture, found, weights, each, np.geomspace(_COARSE, _FINEST, tuning.shrinking), space)
        fitted = _fitted(mixture, found, uniform(*tuning.small), open_inputs)
        inputs = torch.where(uniform(0, 1) < tuning.refitted, fitted, inputs)
    kept = distinct(found, mixture.net_zeros(found).argsort(descending=True), _SAME)
    found, weighting = found[kept], weighting.rows(kept)
    inputs, least = _fitted(mixture, found, torch.full_like(least[kept], _CLOSE), open_inputs), least[kept]
    weights = _weights(mixture, inputs, replace(weighting, unevenness=0.0 * weighting.unevenness), generator)
    space = replace(space, strength=torch.full_like(inputs[:, 0], tuning.beside[-1]))
    steps = tuning.slow // 2
    found = _shrink(mixture, found, weights, least, np.geomspace(_CLOSE, _NEAR, steps), space)
    return settle(mixture, _shrink(mixture, found, weights, least, np.geomspace(_LEAVING, _FINEST, steps), None))


def columns_nearby(mixture: Mixture, inputs: Tensor, vectors: Tensor) -> Candidates:
    """The columns of inputs (m, n) next to vectors (m, n), whose zeros may be others than those found."""
    sizes = np.geomspace(*mixture.tuning.nearby, mixture.tuning.slow)
    return settle(mixture, narrow(mixture, vectors, sizes, mixture.activations(inputs)[1] < 0))


def _weights(mixture: Mixture, inputs: Tensor, weighting: Weighting, generator: torch.Generator) -> Tensor:
    """Of neurons, (m, h): how far inputs are from activating them, at most 1, and a little for all."""
    weights = uneven(mixture, inputs, weighting, generator)
    return weights / weights.amax(1, keepdim=True).clamp_min(1e-300) + mixture.tuning.kept


def _fitted(mixture: Mixture, found: Tensor, small: Tensor, open_inputs: Tensor) -> Tensor:
    """Inputs that fit vectors (m, n), of which entries below `small` (m, 1), over their mean, may be zero."""
    sizes = mixture.relative(found)
    return fit_inputs(mixture, sizes < small, open_inputs, sizes)[0]


def _shrink(
    mixture: Mixture, found: Tensor, weights: Tensor, powers: Tensor, smooth: Iterable[float], space: NearSpace | None
) -> Tensor:
    """Minimises sum_h w_h |(U v)_h|^p by reweighted least squares, near a space if one is given."""
    for size in smooth:
        scaled = weights / (mixture.relative(found).square() + size**2) ** (1 - 0.5 * powers)
        scaled = scaled / scaled.amax(1, keepdim=True)
        energy = mixture.gram(scaled)
        if space is not None:
            energy = space.beside(energy, (scaled * mixture.columns(found).square()).sum(1))
        found = least_direction(energy, found, 2, _RIDGE)
    return found


def space_of_missing(mixture: Mixture, vectors: Tensor) -> Tensor:
    """An orthonormal basis (n, n - m) of a space near which the columns lie that are not among the m known ones.

    The product of a column's own input with its direction S^-1 v is one.
    """
    inputs = known_inputs(mixture, vectors, mixture.relative(vectors))
    scales = (vectors * (inputs / mixture.sizes)).sum(1, keepdim=True)
    rest = torch.diag(mixture.sizes) - vectors.T @ (inputs / scales)
    return torch.linalg.svd(rest @ mixture.open_inputs(vectors), full_matrices=False)[0]


def known_inputs(mixture: Mixture, vectors: Tensor, sizes: Tensor | None = None) -> Tensor:
    """Nearly the inputs (m, n) of known columns (m, n), of length one, from their zeros, and sizes (m, h) if given.

    The input of a known column is orthogonal to S^-1 v for the vectors v of the other known columns. That leaves
    n - m + 1 numbers of it open.
    """
    zeros, rows = mixture.zeros(vectors), [vectors[:0]]
    for index in range(len(vectors)):
        one, others = slice(index, index + 1), torch.cat([vectors[:index], vectors[index + 1 :]])
        own = None if sizes is None else sizes[one]
        rows.append(fit_inputs(mixture, zeros[one], mixture.open_inputs(others), own)[0])
    return torch.cat(rows)
