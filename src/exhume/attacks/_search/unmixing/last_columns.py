"""The last columns of a ReLU layer, where most are known: they lie near a space of as many dimensions.

With columns C_K known, D = C_K Y_K + C_M Y_M. The zeros of a known column give its input y_k nearly, and the missing
inputs Y_M span the known space E, so that (D - C_K Y_K) E^+ = C_M Y_M E^+ has nearly the missing columns as its span.
There zeros are found although half of the neurons that an input leaves inactive at both ends were active in between.
"""

from __future__ import annotations

import torch

from exhume.attacks._search.unmixing.columns import Candidates, fit_inputs, least_direction, settle
from exhume.attacks._search.unmixing.mixture import Mixture, Tensor

# Sizes of entries, over the mean, that are smoothed at the first and the last step.
_COARSE, _FINEST = 0.3, 1e-5
# Size of an entry, over the mean, below which it may be zero when inputs are fitted.
_SMALL = 0.3
# Added to the diagonal before a factorisation, over its mean.
_RIDGE = 1e-13


def last_columns(mixture: Mixture, vectors: Tensor, starts: int, generator: torch.Generator) -> Candidates:
    """Columns besides the known ones (m, n), from random vectors of the space that these leave.

    Reweighted least squares for sum_h w_h |(U v)_h|^p + lambda |v off the space|^2, with w the distance of an input
    from activating a neuron after training, and the input the one that fits where the vector is small.
    """
    tuning = mixture.tuning
    near, open_inputs = space_of_missing(mixture, vectors), mixture.open_inputs(vectors)
    off = torch.eye(mixture.rank).to(near) - near @ near.T
    found = torch.randn((starts, near.shape[1]), generator=generator).to(near) @ near.T
    weights = torch.ones((starts, mixture.num_neurons)).to(near)
    for step in range(tuning.last_steps):
        columns = mixture.columns(found)
        sizes = columns.abs() / columns.abs().mean(1, keepdim=True)
        if step in tuning.refitted:
            inputs, _ = fit_inputs(mixture, sizes < _SMALL, open_inputs)
            before, after = mixture.activations(inputs)
            far = (-after / before.std(1, keepdim=True)).clamp_min(0)
            weights = far / far.amax(1, keepdim=True).clamp_min(1e-30) + tuning.kept
        smooth = _COARSE * (_FINEST / _COARSE) ** (step / max(tuning.last_steps - 1, 1))
        scaled = weights / (sizes.square() + smooth**2) ** (1 - 0.5 * tuning.last_penalty)
        scaled = scaled / scaled.amax(1, keepdim=True)
        energy = tuning.beside * (scaled * columns.square()).sum(1)
        found = least_direction(mixture.gram(scaled) + energy[:, None, None] * off, found, 2, _RIDGE)
    return settle(mixture, found)


def space_of_missing(mixture: Mixture, vectors: Tensor) -> Tensor:
    """An orthonormal basis (n, n - m) of a space near which the columns lie that are not among the m known ones.

    The product of a column's own input with its direction S^-1 v is one.
    """
    inputs = known_inputs(mixture, vectors)
    scales = (vectors * (inputs / mixture.sizes)).sum(1, keepdim=True)
    rest = torch.diag(mixture.sizes) - vectors.T @ (inputs / scales)
    return torch.linalg.svd(rest @ mixture.open_inputs(vectors), full_matrices=False)[0]


def known_inputs(mixture: Mixture, vectors: Tensor) -> Tensor:
    """Nearly the inputs (m, n) of known columns (m, n), of length one, from their zeros."""
    zeros, rows = mixture.zeros(vectors), [vectors[:0]]
    for index in range(len(vectors)):
        others = torch.cat([vectors[:index], vectors[index + 1 :]])
        rows.append(fit_inputs(mixture, zeros[index : index + 1], mixture.open_inputs(others))[0])
    return torch.cat(rows)
