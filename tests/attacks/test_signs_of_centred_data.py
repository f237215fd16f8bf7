"""Signs of centred samples, which are linearly dependent."""

from __future__ import annotations

import pytest

import exhume
from exhume import data


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_linear_part_decides_the_signs_of_samples_that_sum_to_zero(activation: str) -> None:
    sphere = data.load("sphere", dim=16, samples=6, seed=0)
    inputs = sphere.inputs - sphere.inputs.mean(dim=0)
    victim = exhume.RandomFeatures(num_features=960, activation=activation, seed=0).fit(inputs, sphere.labels)
    result = exhume.reconstruct(victim.target(), num_samples=6, seed=0)
    assert result.signs_determined
    assert result.certificate.verdict == "exact"
    assert exhume.score(result, inputs).error < 1e-5
