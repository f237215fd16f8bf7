"""The random-features victim: the paper's closed forms, logistic descent, precision, memory."""

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import estimator_checks_generator

from exhume.errors import InputError
from exhume.target import Knowledge
from exhume.victims import RandomFeatures


@pytest.fixture
def problem():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn((8, 5), generator=generator)
    return inputs, torch.randn(8, generator=generator)


@pytest.mark.parametrize(
    ("estimator", "check"),
    list(estimator_checks_generator(RandomFeatures(num_features=200))),
    ids=lambda value: getattr(getattr(value, "func", None), "__name__", None),
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)  # the checks assert for themselves


@pytest.mark.parametrize("num_features", [3, 8, 60])
def test_minimum_norm_solution_is_the_pseudo_inverse(problem, num_features):
    inputs, labels = problem
    victim = RandomFeatures(num_features=num_features, dtype="float64").fit(inputs, labels)
    features = victim.feature_map_.forward(inputs)
    expected = torch.linalg.pinv(features) @ labels.double()  # Eq. (2)
    torch.testing.assert_close(victim.theta_[0], expected, atol=1e-8, rtol=1e-8)


def test_ridge_solution_is_equation_169_and_minimises_equation_168(problem):
    inputs, labels = problem
    victim = RandomFeatures(num_features=60, dtype="float64", ridge=0.3).fit(inputs, labels)
    features = victim.feature_map_.forward(inputs)
    theta = victim.theta_[0].clone().requires_grad_(True)
    loss = (features @ theta - labels).square().mean() + 0.3 * theta.square().sum()
    (gradient,) = torch.autograd.grad(loss, theta)
    assert gradient.abs().max() < 1e-10


def test_logistic_coefficients_follow_plain_gradient_descent_on_theta(problem):
    inputs, labels = problem
    labels = labels.sign().double()
    victim = RandomFeatures(num_features=60, dtype="float64", loss="logistic", step_size=1e-2, max_steps=50)
    victim.fit(inputs, labels)
    features = victim.feature_map_.forward(inputs)
    theta = torch.zeros(60, dtype=torch.float64, requires_grad=True)
    for _ in range(50):
        loss = torch.nn.functional.softplus(-labels * (features @ theta)).sum()
        (gradient,) = torch.autograd.grad(loss, theta)
        theta = (theta - 1e-2 * gradient).detach().requires_grad_(True)
    torch.testing.assert_close(victim.theta_[0], theta.detach(), atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-10)])
def test_over_parameterised_victim_interpolates(problem, dtype, tolerance):
    inputs, labels = problem
    victim = RandomFeatures(num_features=200, dtype=dtype).fit(inputs, labels)
    assert victim.theta_.dtype == getattr(torch, dtype)
    np.testing.assert_allclose(victim.predict(inputs), labels, atol=tolerance)
    assert victim.training_loss_ < tolerance**2


def test_several_outputs_are_solved_alike(problem):
    inputs, labels = problem
    both = torch.stack((labels, -2 * labels), dim=1)
    victim = RandomFeatures(num_features=50, dtype="float64").fit(inputs, both)
    assert victim.theta_.shape == (2, 50)
    torch.testing.assert_close(victim.theta_[1], -2 * victim.theta_[0])
    assert victim.predict(inputs).shape == (8, 2)


def test_weights_do_not_depend_on_the_memory_budget(problem):
    inputs, labels = problem
    kept, regenerated = (
        RandomFeatures(num_features=3000, memory_budget=budget).fit(inputs, labels) for budget in ("1GB", 0)
    )
    assert torch.equal(kept.theta_, regenerated.theta_)


def test_target_is_the_public_part_and_knows_nothing_unless_told(problem):
    inputs, labels = problem
    victim = RandomFeatures(num_features=50).fit(inputs, labels)
    assert torch.equal(victim.target().displacement, victim.theta_)
    assert victim.target().knowledge == Knowledge()
    assert victim.target(knowledge=Knowledge(num_samples=8)).knowledge.num_samples == 8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "float16"}, "float16.*float32, float64"),
        ({"loss": "hinge"}, "hinge.*square, logistic"),
        ({"activation": "swish"}, "unknown activation 'swish'"),
        ({"ridge": -1.0}, "ridge"),
        ({"num_features": 0}, "num_features"),
        ({"loss": "logistic"}, "labels -1 and \\+1"),
    ],
)
def test_bad_settings_are_named(problem, settings, message):
    with pytest.raises(InputError, match=message):
        RandomFeatures(**settings).fit(*problem)
