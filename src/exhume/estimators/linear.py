"""Targets from linear estimators of scikit-learn: their coefficients are a combination of training features.

An estimator with a squared penalty or none, started at zero, only ever adds multiples of training features to its
coefficients: coef = A^T Phi(X), whatever its loss, solver, sample weights and number of steps. Centring for an
intercept adds the mean feature, which is such a combination too. Tests establish it for each estimator listed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from exhume.errors import InputError
from exhume.estimators.feature_steps import feature_steps
from exhume.features.pipeline.function_map import composed
from exhume.features.pipeline.functions import Affine, Cosine, Step
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target

KEEPS_SPAN = (
    "BayesianRidge", "GammaRegressor", "HuberRegressor", "LinearRegression", "LinearSVC", "LinearSVR",
    "LogisticRegression", "LogisticRegressionCV", "PassiveAggressiveClassifier", "PassiveAggressiveRegressor",
    "Perceptron", "PoissonRegressor", "Ridge", "RidgeCV", "RidgeClassifier", "RidgeClassifierCV", "SGDClassifier",
    "SGDOneClassSVM", "SGDRegressor", "TweedieRegressor",
)  # fmt: skip
# Wrappers that fit one of these for each output or class.
WRAPPERS = ("MultiOutputClassifier", "MultiOutputRegressor", "OneVsOneClassifier", "OneVsRestClassifier")
_ABSOLUTE = "its penalty on absolute values sets coefficients to zero one by one"
DECLINED = {
    "ARDRegression": "it weighs every coefficient by a precision of its own and drops some",
    "ElasticNet": _ABSOLUTE,
    "ElasticNetCV": _ABSOLUTE,
    "Lars": "it chooses some of the features",
    "LarsCV": "it chooses some of the features",
    "Lasso": _ABSOLUTE,
    "LassoCV": _ABSOLUTE,
    "LassoLars": _ABSOLUTE,
    "LassoLarsCV": _ABSOLUTE,
    "LassoLarsIC": _ABSOLUTE,
    "LinearDiscriminantAnalysis": "it divides every feature by its spread within classes",
    "MultiTaskElasticNet": _ABSOLUTE,
    "MultiTaskElasticNetCV": _ABSOLUTE,
    "MultiTaskLasso": _ABSOLUTE,
    "MultiTaskLassoCV": _ABSOLUTE,
    "OrthogonalMatchingPursuit": "it chooses some of the features",
    "OrthogonalMatchingPursuitCV": "it chooses some of the features",
    "QuantileRegressor": _ABSOLUTE,
    "TheilSenRegressor": "its coefficients are a median of least-squares fits",
}


def declined(estimator: Any) -> str | None:
    """Why the coefficients of a fitted estimator are not a combination of training features; None if they are."""
    name = type(estimator).__name__
    if name in WRAPPERS:
        reasons = [declined(each) for each in getattr(estimator, "estimators_", ())]
        return next((reason for reason in reasons if reason), None)
    if name in DECLINED:
        return f"{name}: {DECLINED[name]}"
    if name not in KEEPS_SPAN or not type(estimator).__module__.startswith("sklearn."):
        return f"{name} is not among the estimators that were tested: {', '.join((*KEEPS_SPAN, *WRAPPERS))}"
    if getattr(estimator, "positive", False):
        return f"{name}: with positive=True coefficients below zero are set to zero"
    penalty = getattr(estimator, "penalty", None)
    if penalty in ("l1", "elasticnet"):
        return f"{name} with penalty={penalty!r}: {_ABSOLUTE}"
    # Where `penalty` is not set, this mix of penalties decides; SGD has one that it ignores.
    mixes = np.atleast_1d(np.asarray(_mix(estimator), dtype=float))
    if penalty not in ("l2", None) and bool((mixes > 0).any()):
        return f"{name} with l1_ratio={mixes.max():g}: {_ABSOLUTE}"
    return None


def _mix(estimator: Any) -> Any:
    for name in ("l1_ratio_", "l1_ratio"):
        value = getattr(estimator, name, None)
        if value is not None:
            return value
    return 0.0


def coefficients_of(estimator: Any) -> torch.Tensor:
    """The coefficients (k, p) of a fitted linear estimator or a wrapper of some, in their own precision."""
    if type(estimator).__name__ in WRAPPERS:
        return torch.cat([coefficients_of(each) for each in estimator.estimators_])
    coef = getattr(estimator, "coef_", None)
    if coef is None:
        raise InputError(f"this {type(estimator).__name__} is not fitted: it has no coefficients")
    dense = coef.toarray() if hasattr(coef, "toarray") else np.asarray(coef)
    return torch.from_numpy(np.atleast_2d(np.array(dense)))


def span_target(transformer_steps: Sequence[Any], estimator: Any, knowledge: Knowledge | None = None) -> Target:
    """The target of a fitted linear estimator behind fitted transformers: coef = A^T Phi(X).

    Samples of the target are what enters the first transformer. Scalers that come before the features are best left
    out and undone on the samples: searches start from rows of mean 0 and variance 1 unless `knowledge` has other
    statistics.

    Args:
        transformer_steps: fitted transformers, the last of which makes the features of the estimator.
        estimator: fitted, one of `KEEPS_SPAN` or of `WRAPPERS` around them; others are declined with the reason.
        knowledge: what else is known, such as the number of samples.

    Examples:
        >>> import numpy as np
        >>> from sklearn.kernel_approximation import RBFSampler
        >>> from sklearn.linear_model import Ridge
        >>> rows = np.random.default_rng(0).normal(size=(3, 4))
        >>> sampler = RBFSampler(gamma=0.1, n_components=60, random_state=0).fit(rows)
        >>> target = span_target([sampler], Ridge().fit(sampler.transform(rows), [1.0, 2.0, 3.0]))
        >>> target.num_parameters, target.features.input_dim
        (60, 4)
    """
    reason = declined(estimator)
    if reason is not None:
        raise InputError(f"the coefficients hold no span equation. {reason}")
    steps, theta = feature_steps(transformer_steps), coefficients_of(estimator)
    if not steps:
        raise InputError(
            "the estimator reads the inputs themselves: its coefficients show one combination of them and no more; "
            "valid: at least one transformer that is not linear"
        )
    if all(isinstance(step, Affine) for step in steps):
        raise InputError(
            "all transformers are linear: the coefficients show one combination of the inputs for each output, no more"
        )
    precision = torch.float32 if theta.dtype == torch.float32 else torch.float64
    steps, scale = _without_scale(steps)
    features = composed(steps, int(transformer_steps[0].n_features_in_), precision)
    if theta.shape[1] != features.num_features:
        raise InputError(
            f"the estimator has {theta.shape[1]} coefficients, the transformers make {features.num_features} features; "
            "valid: the transformers that it was fitted behind"
        )
    known = (knowledge or Knowledge()).knowing(initial_head="zero")
    return Target(features, scale * theta.to(precision), known)


def _without_scale(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], float]:
    """Steps without the common factor of cosines at their end, and that factor, which joins the coefficients."""
    if len(steps) > 1 and isinstance(steps[-2], Cosine):
        last = steps[-1]
        assert isinstance(last, Affine)
        return steps[:-1], float(last.matrix[0])
    return steps, 1.0
