"""Checks of the wall: open directions are counted right, and other solutions end where they should."""

import pytest
import torch

from exhume.theory import wall
from exhume.theory.levenberg import fit_samples
from exhume.theory.setting import feature_map, sphere_samples


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
    near = inputs + 0.1 * sphere_samples(6, 6, 0, "near").reshape(2, 3, 6)
    found, left = fit_samples(features, theta, near)
    assert float(left.max()) < 1e-12
    torch.testing.assert_close(found, inputs.expand(2, -1, -1), rtol=0, atol=1e-10)
