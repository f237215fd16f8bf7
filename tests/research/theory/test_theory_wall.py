"""Checks of the wall: the count of undetermined directions, and where other solutions cease to exist."""

import pytest
import torch

from exhume.research.theory import wall, wall_of_outputs
from exhume.research.theory.setting import entries, feature_map, sphere_samples


@pytest.mark.parametrize("name", ["waves", "tanh", "relu+tanh"])
def test_open_directions_are_what_counting_says(name):
    assert wall.open_directions(name, seed=1).passed


def test_linear_features_leave_directions_open_however_many_there_are(linear):
    check = wall.open_directions(linear)
    assert not check.passed
    assert check.rows[-1][2] > 0


def test_other_solutions_end_at_the_wall():
    check = wall.other_solutions("relu+tanh", seed=0, num_problems=1, num_starts=16)
    assert check.passed
    wrong = {row[1]: row[5] for row in check.rows}
    assert wrong[0.5] > 0
    assert wrong[2.0] == wrong[4.0] == 0


def test_other_solutions_remain_where_signs_are_hidden():
    check = wall.other_solutions("tanh", seed=0, num_problems=1, num_starts=12)
    assert not check.passed
    assert check.rows[-1][5] > 0  # p = 4 dn


def test_samples_near_the_truth_are_fitted_to_rounding():
    inputs = sphere_samples(3, 6, 0, "test")
    features = feature_map(80, 6, "tanh", 0, "test")
    theta = wall.coefficients(3, 0, "test") @ features.forward(inputs)
    for near in inputs + 0.1 * sphere_samples(6, 6, 0, "near").reshape(2, 3, 6):
        found, left = wall.fit_samples(features, theta, near)
        assert left < 1e-12
        torch.testing.assert_close(found, inputs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["relu", "relu+tanh"])
def test_the_forecast_of_several_outputs_is_that_of_ranks(name):
    assert wall_of_outputs.fewest_features(name, seed=1).passed


def test_linear_features_never_reach_the_counted_rank(linear):
    check = wall_of_outputs.fewest_features(linear)
    assert not check.passed
    assert all(row[3] == 2 * row[6] for row in check.rows if row[1] > 1)  # no full rank up to the most that were tried


def test_ranks_refute_the_count_together_alone(monkeypatch):
    monkeypatch.setattr(wall_of_outputs.Wall, "features_per_sample", lambda self, ratio=None: 0)
    assert not wall_of_outputs.fewest_features("relu").passed


def test_the_jacobian_of_several_outputs_is_the_derivative():
    inputs, features = sphere_samples(3, 5, 0, "outputs"), feature_map(7, 5, "tanh", 0, "outputs")
    weights = torch.randn((3, 2), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    both = torch.func.jacrev(lambda x, a: features.activation.value(x @ entries(features).T).T @ a, argnums=(0, 1))
    expected = torch.cat([part.flatten(2) for part in both(inputs, weights)], 2)
    torch.testing.assert_close(wall_of_outputs.jacobian(features, inputs, weights), expected)
