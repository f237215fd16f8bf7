"""Directions from second moments: rows to start from, and rows along samples that are missing among the candidates.

Stein's identity: mean_k r_k (g_k g_k^T - I) tends to c_2 sum_i a_i u_i u_i^T for r = sum_i a_i act(u_i . g). The
eigenvectors of largest |eigenvalue| of V^T diag(r) V, less its trace, therefore lie close to the span of the samples
behind r (Janzamin, Sedghi & Anandkumar 2015).
"""

from __future__ import annotations

import math
from typing import TypeGuard

import torch

from exhume.activations import Activation
from exhume.attacks._base.search_tuning import EquationTuning, SpectralTuning
from exhume.features import FeatureMap, OneLayerFeatures
from exhume.solvers import FixedNorm


def is_one_layer(features: FeatureMap) -> TypeGuard[OneLayerFeatures]:
    """Whether the features are act(V x + b), so that V has second moments."""
    return isinstance(features, OneLayerFeatures)


def shows_samples(activation: Activation, tuning: EquationTuning) -> bool:
    """Whether second moments show the samples: not those of odd activations."""
    return abs(float(activation.hermite(2)[2])) > tuning.hermite_zero


def strongest_output(rows: torch.Tensor, features: FeatureMap) -> torch.Tensor:
    """One row (p,) for several over the coordinates of a map: the combination of the k rows with the largest norm."""
    if rows.shape[0] == 1:
        return rows[0]
    gram = features.coordinates.sum((rows @ rows.T).double())
    return features.coordinates.broadcast(torch.linalg.eigh(gram)[1][:, -1].contiguous()).to(rows) @ rows


def moment_spectrum(
    features: OneLayerFeatures, weights: torch.Tensor, count: int, generator: torch.Generator, tuning: SpectralTuning
) -> tuple[torch.Tensor, torch.Tensor]:
    """Eigenvalues and eigenvectors (columns) of V^T diag(weights) V less its mean diagonal.

    All of them in small dimensions, elsewhere somewhat more than `count` of the largest in size.
    """
    dim = features.input_dim
    if dim <= tuning.dense_dim:
        moment = features.second_moment(weights)
        moment.diagonal().sub_(moment.diagonal().mean())
        return torch.linalg.eigh(moment)
    width = min(dim, count + tuning.spare)
    trace = float(features.coordinates.sum(weights.sum())) / dim
    lead = features.coordinates.broadcast
    basis = lead(torch.linalg.qr(random_rows(dim, width, generator, features))[0].contiguous())  # (d, width)
    for sweep in range(tuning.sweeps + 1):
        image = features.weighted_moment(basis.T, weights).T - trace * basis
        if sweep < tuning.sweeps:
            basis = lead(torch.linalg.qr(image)[0].contiguous())
    values, inner = torch.linalg.eigh(basis.T @ image)
    return values, basis @ inner


def spectral_rows(
    features: OneLayerFeatures, residual: torch.Tensor, count: int, generator: torch.Generator, tuning: SpectralTuning
) -> torch.Tensor:
    """`count` rows of norm sqrt(d) along the strongest second moments of a residual (k, p); random ones beyond d."""
    dim = features.input_dim
    weights = strongest_output(residual, features)
    values, vectors = moment_spectrum(features, weights, count, generator, tuning)
    strongest = vectors[:, values.abs().argsort(descending=True)[:count]].T.contiguous()
    missing = count - strongest.shape[0]
    if missing > 0:
        strongest = torch.cat([strongest, random_rows(missing, dim, generator, features)])
    return FixedNorm(math.sqrt(dim)).retract(strongest)


def random_rows(count: int, dim: int, generator: torch.Generator, like: FeatureMap) -> torch.Tensor:
    """Rows (count, dim) uniform on the sphere of radius sqrt(dim), drawn on the CPU in float32."""
    drawn = torch.randn((count, dim), generator=generator).to(like.device, like.dtype)
    return FixedNorm(math.sqrt(dim)).retract(drawn)
