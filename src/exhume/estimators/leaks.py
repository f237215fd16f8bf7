"""What a fitted step tells of its training rows without holding one: means, ranges, categories, counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from exhume.estimators.walk import Step, family
from exhume.support.text import plural

# Categories that a sentence names; more are counted.
_NAMED = 5


def leaks_of(estimator: Any) -> tuple[str, ...]:
    """What a step gives away of the data, in sentences; none if nothing is known of its class.

    >>> from sklearn.preprocessing import StandardScaler
    >>> leaks_of(StandardScaler().fit([[1.0, 5.0], [3.0, 9.0]]))
    ('mean and variance of 2 columns, over 2 rows',)
    """
    for name in family(estimator):
        if name in LEAKS:
            return tuple(LEAKS[name](estimator))
    return ()


def count_of_rows(steps: Sequence[Step]) -> int | None:
    """The number of training rows that a file states, if it does; the first step that states it counts."""
    for step in steps:
        seen = _count_seen(step.estimator)
        if seen is not None:
            return seen
    return None


def _count_seen(estimator: Any) -> int | None:
    if isinstance(getattr(estimator, "t_", None), int | np.integer) and hasattr(estimator, "n_iter_"):
        epochs = int(estimator.n_iter_)  # of an MLP, which counts the rows that it has seen
        mlp = epochs and estimator.t_ and "BaseMultilayerPerceptron" in family(estimator)
        return int(estimator.t_) // epochs if mlp else None
    for name in ("n_samples_seen_", "n_samples_", "n_samples_fit_"):
        value = getattr(estimator, name, None)
        if value is not None:
            return int(np.max(value))  # columns with missing values have counts of their own
    counts = getattr(estimator, "class_count_", None)
    return None if counts is None or np.ndim(counts) != 1 else round(float(np.sum(counts)))


def _columns(values: Any) -> str:
    return plural(len(np.atleast_1d(values)), "column")


def _over(estimator: Any) -> str:
    seen = _count_seen(estimator)
    return "" if seen is None else f", over {plural(seen, 'row')}"


def _about(attribute: str, sentence: str) -> Callable[[Any], Iterable[str]]:
    """One sentence on the columns of an attribute."""
    return lambda estimator: [sentence.format(columns=_columns(getattr(estimator, attribute)), over=_over(estimator))]


def _standard(estimator: Any) -> Iterable[str]:
    what = [name for name, value in (("mean", estimator.mean_), ("variance", estimator.var_)) if value is not None]
    if what:
        yield f"{' and '.join(what)} of {plural(estimator.n_features_in_, 'column')}{_over(estimator)}"


def _robust(estimator: Any) -> Iterable[str]:
    if estimator.center_ is not None:
        yield f"median of {_columns(estimator.center_)}"
    if estimator.scale_ is not None:
        yield f"spread between two quantiles of {_columns(estimator.scale_)}"


def _quantiles(estimator: Any) -> Iterable[str]:
    kept, columns = estimator.quantiles_.shape
    yield f"{kept} quantiles of {plural(columns, 'column')}: with as many as rows, every value of every column"


def _power(estimator: Any) -> Iterable[str]:
    yield f"an exponent for each of {_columns(estimator.lambdas_)}"
    if getattr(estimator, "_scaler", None) is not None:
        yield from _standard(estimator._scaler)


def _categories(estimator: Any) -> Iterable[str]:
    names = getattr(estimator, "feature_names_in_", range(len(estimator.categories_)))
    for name, values in zip(names, estimator.categories_, strict=True):
        yield f"every category of column {name}: {_listed(values)}"


def _classes(estimator: Any) -> Iterable[str]:
    yield f"every label: {_listed(estimator.classes_)}"


def _listed(values: Any) -> str:
    named = ", ".join(str(each) for each in values[:_NAMED])
    return named if len(values) <= _NAMED else f"{named} and {len(values) - _NAMED} more"


def _imputed(estimator: Any) -> Iterable[str]:
    yield f"the {estimator.strategy.replace('_', ' ')} of {_columns(estimator.statistics_)}"


def _pca(estimator: Any) -> Iterable[str]:
    yield f"mean and {plural(estimator.n_components_, 'direction')} of the covariance of the rows{_over(estimator)}"


def _vocabulary(estimator: Any) -> Iterable[str]:
    yield f"{plural(len(estimator.vocabulary_), 'word')} of the training texts"


def _naive_bayes(estimator: Any) -> Iterable[str]:
    counts = estimator.class_count_
    yield (
        f"mean and variance of every column within {plural(len(counts), 'class', 'classes')}, "
        f"of {_listed(counts.astype(int))} rows"
    )


def _centres(estimator: Any) -> Iterable[str]:
    yield f"{plural(len(estimator.cluster_centers_), 'centre')} of clusters, and the cluster of every row"


def _trees(estimator: Any) -> Iterable[str]:
    yield "thresholds, each half way between two values of a column, and counts or means of labels in leaves"


def _network(estimator: Any) -> Iterable[str]:
    seen = _count_seen(estimator)
    if seen is not None:
        yield f"the number of training rows: {seen}"
    if isinstance(estimator.random_state, int | np.integer):
        yield f"random_state {estimator.random_state}, from which its initial weights can be made again"


LEAKS: dict[str, Callable[[Any], Iterable[str]]] = {
    "StandardScaler": _standard,
    "MinMaxScaler": _about("data_min_", "smallest and largest value of {columns}{over}: values of actual rows"),
    "MaxAbsScaler": _about("max_abs_", "largest size of {columns}{over}: values of actual rows"),
    "RobustScaler": _robust,
    "QuantileTransformer": _quantiles,
    "PowerTransformer": _power,
    "OneHotEncoder": _categories,
    "OrdinalEncoder": _categories,
    "TargetEncoder": _categories,
    "LabelEncoder": _classes,
    "LabelBinarizer": _classes,
    "SimpleImputer": _imputed,
    "PCA": _pca,
    "KBinsDiscretizer": _about("bin_edges_", "edges of the intervals of {columns}"),
    "VarianceThreshold": _about("variances_", "variance or range of {columns}"),
    "CountVectorizer": _vocabulary,
    "GaussianNB": _naive_bayes,
    "KMeans": _centres,
    "BaseDecisionTree": _trees,
    "BaseForest": _trees,
    "BaseGradientBoosting": _trees,
    "BaseHistGradientBoosting": _trees,
    "IsolationForest": _trees,
    "BaseMultilayerPerceptron": _network,
}
