"""Linear estimators whose coefficients are a combination of training features, and those whose are not."""

import inspect
import warnings

import numpy as np
import pytest
import sklearn.linear_model as linear
from sklearn import svm
from sklearn.datasets import load_diabetes
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import RBFSampler
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from exhume.errors import InputError
from exhume.estimators.linear import DECLINED, KEEPS_SPAN, span_target

RECORDS, TARGETS = (each[::40] for each in load_diabetes(return_X_y=True))
RECORDS = StandardScaler().fit_transform(RECORDS)
CLASSES, THREE = np.median(TARGETS) < TARGETS, np.digitize(TARGETS, np.quantile(TARGETS, [0.33, 0.67]))
WEIGHTS = np.random.default_rng(0).uniform(0.2, 2.0, len(TARGETS))
SAMPLER = RBFSampler(gamma=0.1, n_components=150, random_state=0).fit(RECORDS)
FEATURES = SAMPLER.transform(RECORDS)
IS_CLASSIFIER = ("Classifier", "Perceptron", "LinearSVC", "LogisticRegression")


def kind_of(name):
    return getattr(linear, name, None) or getattr(svm, name)


def made(name, **settings):
    return kind_of(name)(**({"cv": 2} if name == "LogisticRegressionCV" else {}), **settings)


@pytest.fixture(autouse=True)
def _without_warnings():
    """Some estimators are deprecated, and few steps do not converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fitted(estimator, targets, **settings):
    return estimator.fit(FEATURES, targets, **settings)


def outside(estimator):
    """Share of the target's displacement that training features do not span."""
    theta = span_target([SAMPLER], estimator).displacement.numpy()
    basis = np.linalg.qr(FEATURES.T)[0]
    return np.linalg.norm(theta - theta @ basis @ basis.T) / np.linalg.norm(theta)


def targets_for(name):
    return CLASSES if any(word in name for word in IS_CLASSIFIER) else TARGETS


@pytest.mark.parametrize("name", KEEPS_SPAN)
def test_every_listed_estimator_keeps_the_span_equation(name):
    assert outside(fitted(made(name), targets_for(name))) < 1e-12


VARIANTS = {
    **{
        f"LogisticRegression {solver} {steps}": (linear.LogisticRegression(solver=solver, max_iter=steps), CLASSES)
        for solver in ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga")
        for steps in (3, 100)
    },
    **{
        f"Ridge {solver}": (linear.Ridge(solver=solver), TARGETS)
        for solver in ("svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga")
    },
    "without intercept": (linear.Ridge(fit_intercept=False), TARGETS),
    "no penalty": (linear.LogisticRegression(C=np.inf, max_iter=20), CLASSES),
    "averaged": (linear.SGDClassifier(average=True), THREE),
    "averaged regression": (linear.SGDRegressor(average=True), TARGETS),
    "primal": (svm.LinearSVC(dual=False), CLASSES),
    "primal regression": (svm.LinearSVR(dual=False, loss="squared_epsilon_insensitive"), TARGETS),
    "newton": (linear.PoissonRegressor(solver="newton-cholesky"), TARGETS),
    "three classes": (linear.LogisticRegression(), THREE),
    "two outputs": (linear.Ridge(), np.stack([TARGETS, TARGETS**2], 1)),
    "one against the rest": (OneVsRestClassifier(svm.LinearSVC()), THREE),
    "one against one": (OneVsOneClassifier(linear.Perceptron()), THREE),
    "an estimator for each output": (MultiOutputRegressor(linear.BayesianRidge()), np.stack([TARGETS, -TARGETS], 1)),
    "sparse coefficients": (linear.SGDClassifier(), CLASSES),
}


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_solvers_steps_averages_intercepts_and_outputs_keep_it(name):
    estimator = fitted(*VARIANTS[name])
    if name == "sparse coefficients":
        estimator.sparsify()
    assert outside(estimator) < 1e-12


def with_parameter(name, of="__init__"):
    """The listed estimators that have this parameter."""
    return [each for each in KEEPS_SPAN if name in inspect.signature(getattr(kind_of(each), of)).parameters]


@pytest.mark.parametrize("name", with_parameter("sample_weight", "fit"))
def test_sample_weights_keep_it(name):
    assert outside(fitted(made(name), targets_for(name), sample_weight=WEIGHTS)) < 1e-12


@pytest.mark.parametrize("name", with_parameter("max_iter"))
def test_two_steps_which_do_not_converge_keep_it(name):
    settings = {"solver": "sag"} if name in ("Ridge", "RidgeClassifier") else {}  # the default one takes no steps
    assert outside(fitted(made(name, max_iter=2, **settings), targets_for(name))) < 1e-12


@pytest.mark.parametrize("name", with_parameter("average"))
def test_averages_over_steps_keep_it(name):
    assert outside(fitted(made(name, average=True), targets_for(name))) < 1e-12


def test_most_estimators_are_among_the_weighted_and_the_unconverged():
    assert len(with_parameter("sample_weight", "fit")) > 15
    assert len(with_parameter("max_iter")) > 12


@pytest.mark.parametrize("name", with_parameter("fit_intercept"))
def test_no_intercept_keeps_it(name):
    assert outside(fitted(made(name, fit_intercept=False), targets_for(name))) < 1e-12


def test_outputs_of_the_target_are_those_of_the_estimator():
    estimator = fitted(linear.Ridge(), TARGETS)
    target = span_target([SAMPLER], estimator)
    features = target.features.forward(target.displacement.new_tensor(RECORDS))
    predicted = target.outputs(features)[:, 0].numpy() + estimator.intercept_
    np.testing.assert_allclose(predicted, estimator.predict(FEATURES), rtol=1e-12)


def broken(estimator):
    """Share that training features do not span, of coefficients that are declined."""
    coef = np.atleast_2d(estimator.coef_)
    basis = np.linalg.qr(FEATURES.T)[0]
    return np.linalg.norm(coef - coef @ basis @ basis.T) / np.linalg.norm(coef)


BROKEN = {
    "Lasso": (linear.Lasso(alpha=0.1), TARGETS),
    "ElasticNet": (linear.ElasticNet(alpha=0.01), TARGETS),
    "ARDRegression": (linear.ARDRegression(), TARGETS),
    "LinearDiscriminantAnalysis": (LinearDiscriminantAnalysis(), CLASSES),
    "penalty='l1'": (svm.LinearSVC(penalty="l1", dual=False), CLASSES),
    "penalty='elasticnet'": (linear.SGDClassifier(penalty="elasticnet", l1_ratio=0.5), CLASSES),
    "l1_ratio=0.5": (linear.LogisticRegression(C=1000.0, l1_ratio=0.5, solver="saga"), CLASSES),
    "positive=True": (linear.Ridge(positive=True), TARGETS),
    "OrthogonalMatchingPursuit": (linear.OrthogonalMatchingPursuit(), TARGETS),
}


@pytest.mark.parametrize("words", sorted(BROKEN))
def test_estimators_that_break_it_are_declined_with_the_reason(words):
    estimator = fitted(*BROKEN[words])
    assert broken(estimator) > 1e-3
    with pytest.raises(InputError, match=f"no span equation.*{words}"):
        span_target([SAMPLER], estimator)


def test_no_estimator_is_both_kept_and_declined():
    assert not set(KEEPS_SPAN) & set(DECLINED)


def test_what_was_not_tested_is_declined():
    with pytest.raises(InputError, match="DecisionTreeClassifier is not among the estimators that were tested: Bayes"):
        span_target([SAMPLER], DecisionTreeClassifier().fit(FEATURES, CLASSES))


def test_estimators_without_features_are_declined():
    estimator = linear.Ridge().fit(RECORDS, TARGETS)
    with pytest.raises(InputError, match="reads the inputs themselves"):
        span_target([], estimator)
    with pytest.raises(InputError, match="all transformers are linear"):
        span_target([StandardScaler().fit(RECORDS)], estimator)
    with pytest.raises(InputError, match="10 coefficients, the transformers make 150 features"):
        span_target([SAMPLER], estimator)
    with pytest.raises(InputError, match="Ridge is not fitted"):
        span_target([SAMPLER], linear.Ridge())
