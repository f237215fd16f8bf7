"""The random-features victim: the paper's closed forms, logistic descent, precision, memory."""

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import estimator_checks_generator

import exhume
from exhume import data
from exhume.errors import InputError
from exhume.target.target import Knowledge, Target
from exhume.victims import RandomFeatures
from exhume.victims.random_features import logistic_coefficients


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


def test_logistic_descent_ends_when_nothing_moves_any_more():
    labels = torch.tensor([[1.0], [-1.0], [1.0]], dtype=torch.float64)
    gram = 1e6 * torch.eye(3, dtype=torch.float64)  # one step takes every margin to 500, where the slope is e^-500
    coefficients = logistic_coefficients(gram, labels, step_size=1e-3, max_steps=10**12)
    torch.testing.assert_close(coefficients, 5e-4 * labels)


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
    torch.testing.assert_close(kept.theta_, regenerated.theta_)


def test_target_is_the_public_part_and_knows_nothing_unless_told(problem):
    inputs, labels = problem
    victim = RandomFeatures(num_features=50).fit(inputs, labels)
    assert torch.equal(victim.target().displacement, victim.theta_)
    assert victim.target().knowledge == Knowledge()
    assert victim.target(knowledge=Knowledge(num_samples=8)).knowledge.num_samples == 8


@pytest.mark.parametrize("method", ["obs", "magnitude"])
@pytest.mark.parametrize("budget", ["1GB", 0])
def test_pruned_victim_predicts_with_the_survivors_alone(problem, method, budget):
    inputs, labels = problem
    whole = RandomFeatures(num_features=120, dtype="float64", memory_budget=budget).fit(inputs, labels)
    pruned = whole.prune(inputs, labels, 0.25, method)
    assert pruned.theta_.shape == (1, 30)
    assert whole.theta_.shape == (1, 120)
    assert whole.surviving_ is None
    features = whole.feature_map_.forward(inputs)[:, pruned.surviving_]
    np.testing.assert_allclose(pruned.predict(inputs), (features @ pruned.theta_[0]).numpy(), rtol=1e-12)
    expected = float((features @ pruned.theta_[0] - labels).square().mean())
    assert pruned.training_loss_ == pytest.approx(expected, rel=1e-6, abs=1e-20)
    assert (pruned.training_loss_ < 1e-18) == (method == "obs")


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_surgeon_leaves_the_solution_on_the_survivors(problem, ridge):
    inputs, labels = problem
    pruned = (
        RandomFeatures(num_features=120, dtype="float64", ridge=ridge).fit(inputs, labels).prune(inputs, labels, 0.2)
    )
    features = pruned.feature_map_.forward(inputs)[:, pruned.surviving_]  # (8, 24)
    shifted = features @ features.T + 8 * ridge * torch.eye(8, dtype=torch.float64)
    torch.testing.assert_close(pruned.theta_[0], features.T @ torch.linalg.solve(shifted, labels.double()))


@pytest.mark.parametrize("method", ["obs", "magnitude"])
def test_target_of_a_pruned_victim_satisfies_the_span_equation_on_the_survivors(problem, method, tmp_path):
    inputs, labels = problem
    both = torch.stack((labels, labels.square()), dim=1)
    pruned = RandomFeatures(num_features=120, dtype="float64").fit(inputs, both).prune(inputs, both, 0.5, method)
    pruned.target().save(tmp_path)
    for target in (pruned.target(), Target.load(tmp_path)):
        features = target.features.forward(inputs).T  # (60, 8)
        best = features @ torch.linalg.lstsq(features, target.displacement.T).solution
        torch.testing.assert_close(best.T, target.displacement, atol=1e-12, rtol=1e-9)


def test_pruned_weights_still_give_the_training_inputs_away():
    training = data.load("sphere", dim=12, samples=4, seed=0)
    whole = RandomFeatures(num_features=12 * 4 * 8).fit(training.inputs, training.labels)
    for method in ("obs", "magnitude"):
        pruned = whole.prune(training.inputs, training.labels, 0.5, method)
        result = exhume.reconstruct(pruned.target(), num_samples=4)
        assert exhume.score(result, training.inputs).error < 1e-5


def test_victim_with_nothing_pruned_is_the_same_model(problem):
    inputs, labels = problem
    whole = RandomFeatures(num_features=50, dtype="float64").fit(inputs, labels)
    torch.testing.assert_close(whole.prune(inputs, labels, 1.0).theta_, whole.theta_)
    assert torch.equal(whole.prune(inputs, labels, 1.0, "magnitude").theta_, whole.theta_)


@pytest.mark.parametrize("keep", [0.0, -0.5, 1.5, float("nan")])
def test_shares_out_of_range_are_named(problem, keep):
    with pytest.raises(InputError, match=f"above 0 and at most 1; got {keep}"):
        RandomFeatures(num_features=50).fit(*problem).prune(*problem, keep)


def test_what_cannot_be_pruned_is_refused(problem):
    inputs, labels = problem
    whole = RandomFeatures(num_features=50).fit(inputs, labels)
    with pytest.raises(InputError, match="'wanda'; valid: magnitude, obs"):
        whole.prune(inputs, labels, 0.5, "wanda")
    with pytest.raises(InputError, match="pruned already, to 25 features"):
        whole.prune(inputs, labels, 0.5).prune(inputs, labels, 0.5)
    with pytest.raises(InputError, match="inputs that it was trained on"):
        whole.prune(-inputs, labels, 0.5)
    with pytest.raises(InputError, match="y has 2 outputs; valid: 1"):
        whole.prune(inputs, torch.stack((labels, labels), 1), 0.5)
    signs = labels.sign()
    logistic = RandomFeatures(num_features=50, loss="logistic", max_steps=10).fit(inputs, signs)
    with pytest.raises(InputError, match="not logistic; valid here: magnitude"):
        logistic.prune(inputs, signs, 0.5)
    assert logistic.prune(inputs, signs, 0.5, "magnitude").theta_.shape == (1, 25)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "float16"}, "float16.*float32, float64"),
        ({"loss": "hinge"}, "hinge.*logistic, square"),
        ({"activation": "swish"}, "unknown activation 'swish'"),
        ({"ridge": -1.0}, "ridge"),
        ({"num_features": 0}, "num_features"),
        ({"loss": "logistic"}, "labels -1 and \\+1"),
    ],
)
def test_bad_settings_are_named(problem, settings, message):
    with pytest.raises(InputError, match=message):
        RandomFeatures(**settings).fit(*problem)
