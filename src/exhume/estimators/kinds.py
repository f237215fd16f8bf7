"""What exhume does with each class of estimators: reads rows, attacks weights, lists statistics, or declines."""

from __future__ import annotations

from typing import Any

from exhume.estimators.findings import StepKind
from exhume.estimators.leaks import LEAKS
from exhume.estimators.linear import DECLINED as NOT_SPANNED
from exhume.estimators.linear import KEEPS_SPAN
from exhume.estimators.stored_rows import STORES
from exhume.estimators.walk import CONTAINERS

MLP = "BaseMultilayerPerceptron"
_TREES = "its thresholds lie half way between values of rows, which no attack of exhume searches for"
_AVERAGES = "it keeps averages or sums over rows, which no attack of exhume takes apart"
TEXT = "it reads texts or sparse counts; exhume reads tables of numbers and categories"
# Classes that no attack applies to, and why; a subclass is treated like its base.
DECLINED: dict[str, str] = {
    "BaseDecisionTree": _TREES,
    "BaseForest": _TREES,
    "BaseGradientBoosting": _TREES,
    "BaseHistGradientBoosting": _TREES,
    "IsolationForest": _TREES,
    "_VectorizerMixin": TEXT,
    "FeatureHasher": TEXT,
    "DictVectorizer": TEXT,
    "TfidfTransformer": TEXT,
    "_BaseNB": _AVERAGES,
    "ClusterMixin": _AVERAGES,
    "NearestCentroid": _AVERAGES,
    "BaseMixture": _AVERAGES,
    "DiscriminantAnalysisPredictionMixin": _AVERAGES,
    "_PLS": _AVERAGES,
    "EmpiricalCovariance": _AVERAGES,
}
# Classes that hold nothing of single rows: what they were given, or random numbers.
_HOLD_NOTHING = frozenset({
    "AdditiveChi2Sampler", "BaseRandomProjection", "Binarizer", "DummyClassifier", "DummyRegressor",
    "FunctionTransformer", "HashingVectorizer", "MissingIndicator", "Normalizer", "PolynomialCountSketch",
    "PolynomialFeatures", "RBFSampler", "SkewedChi2Sampler",
})  # fmt: skip
_COEFFICIENTS = "coefficients, behind features that are not linear, such as RBFSampler"
_UNKNOWN = "exhume knows no attack on this class, so nothing was tested"


def classify(family: tuple[str, ...]) -> tuple[StepKind, str]:
    """What can be expected of a class, by the names of it and its bases, and why or where."""
    for name in family:
        if name in STORES:
            return StepKind.KEEPS_ROWS, f"{STORES[name].attribute}: {STORES[name].which}"
        if name == MLP:
            return StepKind.RECOVERED, "first layer, with the solvers sgd and lbfgs"
        if name in KEEPS_SPAN:
            return StepKind.RECOVERED, _COEFFICIENTS
        if name in NOT_SPANNED:
            return StepKind.DECLINED, NOT_SPANNED[name]
    for name in family:
        if name in CONTAINERS:
            return StepKind.NOTHING, "the estimators in it are examined"
    for name in family:
        if name in _HOLD_NOTHING:
            return StepKind.NOTHING, ""
    declined = next((DECLINED[name] for name in family if name in DECLINED), "")
    if not declined and any(name in LEAKS for name in family):
        return StepKind.STATISTICS, ""
    return StepKind.DECLINED, declined or _UNKNOWN


def family_of(kind: type[Any]) -> tuple[str, ...]:
    """The names of a class and its bases."""
    return tuple(each.__name__ for each in kind.__mro__)
