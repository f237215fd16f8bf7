"""Directions from second moments: the rows with which the exact attack starts and finds hidden samples.

Stein's identity: mean_k r_k (g_k g_k^T - I) tends to c_2 sum_i a_i u_i u_i^T for r = sum_i a_i act(u_i . g). The
eigenvectors of largest |eigenvalue| of V^T diag(r) V, less its trace, therefore lie close to the span of the samples
behind r (Janzamin, Sedghi & Anandkumar 2015).
"""

from __future__ import annotations

import math

import torch

from exhume.features import FeatureMap, RowFeatureMap
from exhume.sharding import coordinates_of
from exhume.solvers import onto_sphere

# Dimension up to which the d x d moment is formed; above it, randomised subspace iteration (Halko et al. 2011).
DENSE_DIM = 128
_SWEEPS = 2
_OVERSAMPLE = 4


def strongest_output(rows: torch.Tensor, features: FeatureMap) -> torch.Tensor:
    """One row (p,) for several over the coordinates of a map: the combination of the k rows with the largest norm."""
    if rows.shape[0] == 1:
        return rows[0]
    gram = coordinates_of(features).sum((rows @ rows.T).double())
    return coordinates_of(features).lead(torch.linalg.eigh(gram)[1][:, -1].contiguous()).to(rows) @ rows


def moment_spectrum(
    features: RowFeatureMap,
    weights: torch.Tensor,
    count: int,
    generator: torch.Generator,
    *,
    sweeps: int = _SWEEPS,
    spare: int = _OVERSAMPLE,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Eigenvalues and eigenvectors (columns) of V^T diag(weights) V less its mean diagonal.

    All of them in small dimensions, elsewhere somewhat more than `count` of the largest in size.
    """
    dim = features.input_dim
    if dim <= DENSE_DIM:
        moment = features.second_moment(weights)
        moment.diagonal().sub_(moment.diagonal().mean())
        return torch.linalg.eigh(moment)
    width = min(dim, count + spare)
    trace = float(coordinates_of(features).sum(weights.sum())) / dim
    lead = coordinates_of(features).lead
    basis = lead(torch.linalg.qr(random_rows(dim, width, generator, features))[0].contiguous())  # (d, width)
    for sweep in range(sweeps + 1):
        image = features.weighted_moment(basis.T, weights).T - trace * basis
        if sweep < sweeps:
            basis = lead(torch.linalg.qr(image)[0].contiguous())
    values, inner = torch.linalg.eigh(basis.T @ image)
    return values, basis @ inner


def spectral_rows(
    features: RowFeatureMap,
    residual: torch.Tensor,
    count: int,
    generator: torch.Generator,
    *,
    sweeps: int = _SWEEPS,
    spare: int = _OVERSAMPLE,
) -> torch.Tensor:
    """`count` rows of norm sqrt(d) along the strongest second moments of a residual (k, p); random ones beyond d.

    Args:
        sweeps, spare: of the randomised eigensolver: how often it iterates, and with how many vectors more.
    """
    dim = features.input_dim
    weights = strongest_output(residual, features)
    values, vectors = moment_spectrum(features, weights, count, generator, sweeps=sweeps, spare=spare)
    strongest = vectors[:, values.abs().argsort(descending=True)[:count]].T.contiguous()
    missing = count - strongest.shape[0]
    if missing > 0:
        strongest = torch.cat([strongest, random_rows(missing, dim, generator, features)])
    return onto_sphere(strongest, math.sqrt(dim))


def random_rows(count: int, dim: int, generator: torch.Generator, like: FeatureMap) -> torch.Tensor:
    """Rows (count, dim) uniform on the sphere of radius sqrt(dim), drawn on the CPU in float32."""
    drawn = torch.randn((count, dim), generator=generator).to(like.device, like.dtype)
    return onto_sphere(drawn, math.sqrt(dim))
