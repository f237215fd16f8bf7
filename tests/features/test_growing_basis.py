"""A basis that grows gives the features of the samples in its span, at the cost of its own size."""

import pytest
import torch

from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.features.growing_basis import GrowingBasis

DIM, WIDTH, COUNT = 60, 500, 4


@pytest.fixture
def features():
    return RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=0), "relu")


def rows(count, seed=0):
    return torch.randn((count, DIM), generator=torch.Generator().manual_seed(seed))


def test_features_of_samples_in_the_span_are_those_of_the_whole_map(features):
    samples = rows(COUNT)
    basis = GrowingBasis(features, torch.cat([samples, rows(3, seed=1)]))
    torch.testing.assert_close(basis.lift(basis.lower(samples)), samples)
    inside = basis.features.forward(basis.lower(samples))
    torch.testing.assert_close(inside, features.forward(samples), atol=1e-5, rtol=1e-5)


def test_renewed_basis_keeps_the_span_of_what_was_kept_and_gains_that_of_what_was_added(features):
    samples, added = rows(COUNT), rows(2, seed=2)
    basis = GrowingBasis(features, torch.cat([samples, rows(3, seed=1)]))
    for _ in range(20):  # rounding does not pile up
        basis.renew(samples, added)
    mixed = samples + torch.randn((COUNT, 2), generator=torch.Generator().manual_seed(3)) @ added
    assert basis.rank == COUNT + 2
    torch.testing.assert_close(
        basis.features.forward(basis.lower(mixed)), features.forward(mixed), atol=2e-5, rtol=1e-4
    )


def test_directions_that_are_there_already_are_not_added_again(features):
    samples = rows(COUNT)
    basis = GrowingBasis(features, samples)
    basis.renew(samples, 3 * samples[:2] - samples[2:])
    assert basis.rank == COUNT


def test_a_pass_inside_costs_the_share_of_the_dimensions_and_growth_one_over_the_new_rows(features):
    counter = features.counter
    basis = GrowingBasis(features, rows(COUNT))
    assert counter.passes(COUNT, WIDTH, DIM) == pytest.approx(1.0)
    basis.renew(rows(COUNT), rows(2, seed=1))
    assert counter.passes(COUNT, WIDTH, DIM) == pytest.approx(1.5)
    basis.features.forward(basis.lower(rows(COUNT)))
    assert counter.passes(COUNT, WIDTH, DIM) == pytest.approx(1.5 + 6 / DIM)
