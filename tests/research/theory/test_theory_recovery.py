"""Checks of span inclusion: the residual is proportional to the error, and signs are determined where expected."""

from dataclasses import replace

import pytest
import torch

from exhume import activations
from exhume.research.theory import span_recovery as recovery
from exhume.research.theory.setting import feature_map, sphere_samples


@pytest.mark.parametrize("name", ["tanh", "relu+tanh"])
def test_the_residual_is_proportional_to_the_error(name):
    assert recovery.residual_follows_error(name, seed=1).passed


def test_linear_features_hide_the_error(linear):
    check = recovery.residual_follows_error(linear)
    assert not check.passed
    assert check.fitted is None  # in the worst direction the residual is zero at every error


def test_signs_are_hidden_by_even_and_odd_activations_alone():
    check = recovery.signs(seed=1)
    assert check.passed
    assert [row[0] for row in check.rows if row[-1]] == ["abs", "tanh", "erf"]


@pytest.mark.parametrize(("name", "parity"), [("tanh", "none"), ("relu", "odd")])
def test_a_false_parity_fails_on_signs(name, parity):
    assert not recovery.signs([replace(activations.get(name), parity=parity)]).passed


def test_jacobians_are_those_of_the_part_outside_the_span():
    inputs = sphere_samples(3, 7, 0, "test")
    features = feature_map(40, 7, "tanh", 0, "test")
    basis = torch.linalg.qr(features.forward(inputs).T)[0]
    for index, jacobian in enumerate(recovery.sample_jacobians(features, inputs)):
        along = recovery.tangent_basis(inputs[index])
        torch.testing.assert_close(along.T @ inputs[index], torch.zeros(6, dtype=torch.float64))
        step = 1e-6 * along.T  # (d - 1, d)
        moved = (features.forward(inputs[index] + step) - features.forward(inputs[index] - step)).T / 2e-6
        torch.testing.assert_close(jacobian, moved - basis @ (basis.T @ moved), rtol=0, atol=1e-8)


def test_no_direction_is_seen_less_than_the_worst():
    inputs = sphere_samples(3, 7, 0, "test")
    features = feature_map(40, 7, "tanh", 0, "test")
    worst = recovery.worst_directions(features, inputs)
    drawn = sphere_samples(30, 7, 0, "directions")
    for index, jacobian in enumerate(recovery.sample_jacobians(features, inputs)):
        along = recovery.tangent_basis(inputs[index])
        least = float((jacobian @ (along.T @ worst[index])).norm() / worst[index].norm())
        for direction in drawn @ along:
            assert float((jacobian @ direction).norm() / direction.norm()) >= least
