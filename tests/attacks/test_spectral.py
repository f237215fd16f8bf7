"""Directions from second moments: they span the samples, and are those of the dense moment matrix."""

import pytest
import torch

from exhume.attacks._base.search_tuning import SpectralTuning
from exhume.attacks._search.spectral import moment_spectrum, spectral_rows, strongest_output
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.solvers import FixedNorm

DENSE_DIM = SpectralTuning().dense_dim


def normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def residual_of(activation, dim, width, coefficients):
    """Features, samples and the residual (k, p) that the samples leave if none of them is found."""
    features = RandomFeatureMap(GaussianMatrix(width, dim, seed=0), activation, torch.float64)
    samples = FixedNorm(dim**0.5).retract(normal(len(coefficients), dim, seed=1))
    weights = torch.tensor(coefficients, dtype=torch.float64).reshape(len(coefficients), -1)
    return features, samples, weights.T @ features.forward(samples)


@pytest.mark.parametrize("dim", [12, DENSE_DIM + 32])
@pytest.mark.parametrize("activation", ["abs", "relu", "gelu"])
def test_strongest_rows_span_the_samples(activation, dim):
    features, samples, residual = residual_of(activation, dim, 400 * dim, [1.0, -1.2, 0.8])
    rows = spectral_rows(features, residual, 3, torch.Generator().manual_seed(2), SpectralTuning())
    torch.testing.assert_close(rows.norm(dim=1), torch.full((3,), dim**0.5).double())
    bases = [torch.linalg.qr(each.T)[0] for each in (samples, rows)]
    cosines = torch.linalg.svdvals(bases[0].T @ bases[1])  # of the angles between both spans
    assert float(cosines.min()) > 0.9


@pytest.mark.parametrize("dim", [12, DENSE_DIM + 32])
def test_spectrum_is_that_of_the_dense_moment(dim):
    features, _, residual = residual_of("abs", dim, 30 * dim, [1.0, -1.2, 0.8])
    values, vectors = moment_spectrum(
        features, residual[0], 3, torch.Generator().manual_seed(2), SpectralTuning(sweeps=30)
    )
    matrix = torch.cat([part.clone() for _, part in features.matrix.chunks(torch.float64)])
    dense = matrix.T @ (residual[0][:, None] * matrix)
    expected = torch.linalg.eigvalsh(dense - dense.diagonal().mean() * torch.eye(dim))
    # Above DENSE_DIM the trace of V^T diag(w) V is taken at its mean, sum(w): all values shift alike.
    shift = 0.0 if dim <= DENSE_DIM else float(dense.diagonal().mean() - residual.sum() / dim)
    strongest = (expected + shift)[(expected + shift).abs().argsort(descending=True)[:3]]
    found = values[values.abs().argsort(descending=True)[:3]]
    torch.testing.assert_close(found, strongest, rtol=1e-3, atol=0)
    image = matrix.T @ (residual[0][:, None] * (matrix @ vectors))
    centre = float(dense.diagonal().mean()) - shift
    chosen = values.abs().argsort(descending=True)[:3]
    torch.testing.assert_close(
        (image - centre * vectors)[:, chosen],
        (vectors * values)[:, chosen],
        rtol=0,
        atol=0.02 * float(values.abs().max()),
    )


def test_several_outputs_are_joined_to_the_one_with_the_largest_norm():
    features, _, residual = residual_of("abs", 6, 500, [[1.0, 0.2, 0.0], [-1.2, 0.1, 0.3]])
    joined = strongest_output(residual, features)
    _, sizes, right = torch.linalg.svd(residual, full_matrices=False)
    torch.testing.assert_close(float(joined.norm()), float(sizes[0]), rtol=1e-9, atol=0)
    assert abs(float(joined @ right[0])) == pytest.approx(float(sizes[0]))


def test_beyond_the_dimension_rows_are_random_and_of_the_same_norm():
    features, _, residual = residual_of("abs", 4, 300, [1.0, -1.2])
    rows = spectral_rows(features, residual, 7, torch.Generator().manual_seed(2), SpectralTuning())
    assert rows.shape == (7, 4)
    torch.testing.assert_close(rows.norm(dim=1), torch.full((7,), 2.0).double())
    torch.testing.assert_close(rows[:4] @ rows[:4].T, 4 * torch.eye(4).double(), atol=1e-9, rtol=0)
