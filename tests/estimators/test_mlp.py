"""MLPs of scikit-learn: initial weights made again, the bias without decay, and rows to the last digit."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler, scale

import exhume
from exhume import InputError
from exhume.estimators.mlp import find_start, initial_layers, network_target
from exhume.estimators.mlp_polish import polish
from exhume.target.dense_displacement import dense_displacement

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
DATA = load_breast_cancer()
CHOSEN = np.random.RandomState(3).permutation(len(DATA.data))[:6]
ROWS, CLASSES = DATA.data[CHOSEN], DATA.target[CHOSEN]


def fitted(kind=MLPClassifier, **settings):
    settings = {"hidden_layer_sizes": (100,), "solver": "sgd", "random_state": 7} | settings
    target = CLASSES if kind is MLPClassifier else scale(ROWS[:, 0])
    return kind(**settings).fit(scale(ROWS), target)


@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic"])
def test_initial_weights_are_those_that_scikit_learn_draws(kind, activation):
    # Steps so small that the trained weights are the initial ones.
    model = fitted(
        kind, activation=activation, hidden_layer_sizes=(9, 5), max_iter=1, learning_rate_init=1e-14, alpha=0
    )
    for (weights, intercepts), coefs, offsets in zip(
        initial_layers(model, 7), model.coefs_, model.intercepts_, strict=True
    ):
        np.testing.assert_allclose(weights, coefs, atol=1e-11)
        np.testing.assert_allclose(intercepts, offsets, atol=1e-11)


def test_a_small_seed_of_the_global_generator_is_found_by_trying():
    np.random.seed(41)  # noqa: NPY002
    model = fitted(random_state=None, max_iter=20)
    start = find_start(model)
    assert "seed 41" in start.sentence
    np.testing.assert_array_equal(start.layers[0][0], initial_layers(model, 41)[0][0])


def test_a_generator_that_no_small_seed_makes_is_declined():
    with pytest.raises(InputError, match="initial weights are not known"):
        find_start(fitted(random_state=np.random.RandomState(2**31 + 11), max_iter=20))


def test_another_random_state_than_the_fitted_one_is_noticed():
    with pytest.raises(InputError, match="random_state 8 makes do not fit"):
        find_start(fitted(max_iter=20).set_params(random_state=8))


@pytest.mark.parametrize(
    ("settings", "reason"), [({"solver": "adam"}, "Adam"), ({"activation": "identity"}, "linear")], ids=str
)
def test_what_the_attack_cannot_read_is_declined_with_the_reason(settings, reason):
    with pytest.raises(InputError, match=reason):
        network_target(fitted(max_iter=2, **settings))


def test_the_module_computes_what_the_estimator_does():
    model = fitted(MLPRegressor, max_iter=5)
    target, _ = network_target(model)
    outputs = target.model.module(torch.from_numpy(scale(ROWS)))[:, 0]
    np.testing.assert_allclose(outputs.detach().numpy(), model.predict(scale(ROWS)), rtol=1e-10)


def test_the_share_of_decayed_weights_is_found_although_the_bias_does_not_decay():
    model = fitted(alpha=0.1, max_iter=50, tol=0.0, n_iter_no_change=1000, momentum=0.0, learning_rate_init=0.1)
    target, _ = network_target(model)
    moved = dense_displacement(target.known_model, (30,))
    assert moved.share == pytest.approx((1 - 0.1 * 0.1 / 6) ** 50, abs=1e-10)
    # The last column is what the bias moved without decay, times about what decay would have left of that.
    start = torch.from_numpy(initial_layers(model, 7)[0][1])
    factor = moved.moved[:, -1] / (torch.from_numpy(model.intercepts_[0]) - start)
    torch.testing.assert_close(factor, factor[:1].expand_as(factor))
    assert moved.share < float(factor[0]) < 1


@pytest.mark.parametrize("solver", ["sgd", "lbfgs"])
def test_rows_behind_a_scaler_come_back_to_the_last_digit(solver):
    network = MLPClassifier((100,), solver=solver, random_state=7, learning_rate_init=0.01, max_iter=500)
    model = make_pipeline(StandardScaler(), network).fit(ROWS, CLASSES)
    found = exhume.audit(model, truth=ROWS, budget_seconds=60)
    assert found.result.certificate.verdict == "exact"
    assert found.score.recovered == 6
    assert found.score.error < 1e-9
    assert found.outcome.value == "recovered"


@pytest.mark.parametrize(("kind", "neurons"), [(MLPRegressor, 400), (MLPClassifier, 100)])
def test_rows_come_back_although_strong_decay_makes_the_bias_tell_little(kind, neurons):
    chosen = np.random.default_rng(11).permutation(len(DATA.data))[:12]
    network = kind(
        hidden_layer_sizes=(neurons,), solver="sgd", alpha=0.1, random_state=11, learning_rate_init=0.01, max_iter=500
    )
    rows = DATA.data[chosen]
    target = scale(rows[:, 0]) if kind is MLPRegressor else DATA.target[chosen]
    model = make_pipeline(StandardScaler(), network).fit(rows, target)
    found = exhume.audit(model, truth=rows, budget_seconds=60)
    assert found.result.evidence["share_of_initial_weights"] < 0.9
    assert found.result.certificate.verdict == "exact"
    assert max(found.score.claimed_errors) < 1e-9


def test_polish_corrects_a_wrong_row():
    model = fitted(learning_rate_init=0.01, max_iter=500)
    target, _ = network_target(model)
    true = torch.from_numpy(scale(ROWS))
    rows = true + 0.01 * torch.randn(true.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows[2] = rows[3].flip(0)
    polished = polish(dense_displacement(target.known_model, (30,)), rows)
    torch.testing.assert_close(polished.rows, true, atol=1e-9, rtol=0)


def test_polish_declines_rows_that_are_not_those_of_the_weights():
    target, _ = network_target(fitted(learning_rate_init=0.01, max_iter=500))
    others = torch.from_numpy(scale(DATA.data[:6]))
    assert polish(dense_displacement(target.known_model, (30,)), others) is None


def test_without_a_scaler_error_bars_count_the_bias_that_does_not_decay():
    network = MLPClassifier((150,), solver="lbfgs", random_state=11)
    model = make_pipeline(FunctionTransformer(), network).fit(scale(ROWS), CLASSES)
    found = exhume.audit(model, truth=scale(ROWS), budget_seconds=20)
    share = found.result.evidence["share_of_initial_weights"]
    assert found.result.certificate.verdict == "approximate"
    assert min(found.result.certificate.predicted_errors) >= 1 - share
    assert max(found.score.claimed_errors) < max(found.result.certificate.predicted_errors)
