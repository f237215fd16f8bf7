"""Walks a fitted scikit-learn estimator: the estimators in it, and what the rows pass before each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from exhume.errors import InputError

# Estimators within estimators are followed to this depth; an object that holds itself is refused, not followed.
_DEEPEST = 30


@dataclass(frozen=True)
class Columns:
    """A choice of columns that an estimator is fitted on, out of `width`."""

    chosen: tuple[int, ...]
    width: int


@dataclass(frozen=True)
class Lost:
    """A step after which the rows are no longer there, and why: it passes on predictions, for instance."""

    reason: str


@dataclass(frozen=True)
class Among:
    """Other columns are put around the rows, such as predictions: their own start at `start`, `width` of them."""

    start: int
    width: int


# What rows pass on their way to an estimator: a fitted transformer, or one of the above.
Passed: TypeAlias = BaseEstimator | Columns | Lost | Among


@dataclass(frozen=True)
class Step:
    """An estimator that is part of another.

    Attributes:
        path: names of the steps that lead to it, joined by " / "; "" for the outermost.
        estimator: fitted.
        before: what the rows pass before it, first to last.
    """

    path: str
    estimator: Any
    before: tuple[Passed, ...] = ()

    @property
    def name(self) -> str:
        """The name of its class."""
        return type(self.estimator).__name__

    @property
    def title(self) -> str:
        """The name of its class, and where it stands."""
        return f"{self.name} ({self.path})" if self.path else self.name

    def inner(self, name: str, estimator: Any, *passed: Passed) -> Step:
        """An estimator within this one, before which rows pass these steps too."""
        return Step(f"{self.path} / {name}" if self.path else name, estimator, (*self.before, *passed))


def walk(estimator: Any) -> list[Step]:
    """All estimators that make up a fitted one, in the order in which rows reach them; containers are left out.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> model = make_pipeline(StandardScaler(), SVC()).fit([[0.0], [1.0], [3.0]], [0, 0, 1])
    >>> [step.path for step in walk(model)]
    ['standardscaler', 'svc']
    """
    return list(_walk(Step("", estimator), 0))


def family(estimator: Any) -> tuple[str, ...]:
    """The names of an estimator's class and its bases, so that subclasses are treated as what they extend."""
    return tuple(each.__name__ for each in type(estimator).__mro__)


def _walk(step: Step, depth: int) -> Iterator[Step]:
    if depth > _DEEPEST:
        raise InputError(f"{step.title} lies {depth} estimators deep; valid: at most {_DEEPEST}")
    if isinstance(step.estimator, str) or step.estimator is None:  # "passthrough", "drop"
        return
    if not {"Pipeline", "FeatureUnion"} & set(family(step.estimator)):  # their steps are checked one by one
        _check_fitted(step)
    for name in family(step.estimator):
        if name in CONTAINERS:
            inside = list(CONTAINERS[name](step))
            for inner in inside:
                yield from _walk(inner, depth + 1)
            if inside and name not in _ALSO_STEPS:
                return
            break
    yield step


def _check_fitted(step: Step) -> None:
    try:
        check_is_fitted(step.estimator)
    except NotFittedError as error:
        raise InputError(f"{step.title} is not fitted; fit the whole pipeline and audit it then") from error
    except TypeError as error:
        raise InputError(
            f"{step.title} is no scikit-learn estimator; valid: a fitted estimator, pipeline or search"
        ) from error


def _pipeline(step: Step) -> Iterator[Step]:
    passed: list[Passed] = []
    for name, estimator in step.estimator.steps:
        yield step.inner(name, estimator, *passed)
        passed += _flattened(estimator)


def _flattened(estimator: Any) -> list[Passed]:
    """The transformers of a pipeline, also of one within it."""
    if "Pipeline" in family(estimator):
        return [each for _, inner in estimator.steps for each in _flattened(inner)]
    return [estimator] if isinstance(estimator, BaseEstimator) else []


def _column_transformer(step: Step) -> Iterator[Step]:
    for name, estimator, columns in column_branches(step.estimator):
        yield step.inner(name, estimator, columns)


def column_branches(transformer: Any) -> list[tuple[str, Any, Columns]]:
    """The branches of a ColumnTransformer: name, fitted transformer or "passthrough" or "drop", and columns."""
    width = int(transformer.n_features_in_)
    names = [str(name) for name in getattr(transformer, "feature_names_in_", range(width))]
    branches = []
    for name, estimator, columns in transformer.transformers_:
        branches.append((name, estimator, Columns(_positions(columns, names), width)))
    return branches


def _positions(columns: Any, names: list[str]) -> tuple[int, ...]:
    """Columns given by names, numbers, a mask or a slice, as numbers."""
    if isinstance(columns, str):
        columns = [columns]
    if isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):  # by names, the last included
            first = 0 if columns.start is None else names.index(columns.start)
            last = len(names) if columns.stop is None else names.index(columns.stop) + 1
            return tuple(range(first, last))
        return tuple(range(len(names))[columns])
    if isinstance(columns, int | np.integer):
        return (int(columns) % len(names),)
    chosen = list(columns)
    if chosen and all(isinstance(each, bool | np.bool_) for each in chosen):
        return tuple(place for place, each in enumerate(chosen) if each)
    return tuple(names.index(each) if isinstance(each, str) else int(each) % len(names) for each in chosen)


def _feature_union(step: Step) -> Iterator[Step]:
    return (step.inner(name, estimator) for name, estimator in step.estimator.transformer_list)


def _attribute(*names: str) -> Callable[[Step], Iterator[Step]]:
    """A container that fits one estimator on the rows as they come and keeps it under one of these names."""

    def inner(step: Step) -> Iterator[Step]:
        for name in names:
            if getattr(step.estimator, name, None) is not None:
                yield step.inner(name, getattr(step.estimator, name))
                return
        raise InputError(f"{step.title} keeps no fitted estimator; fit it with refit=True and audit it then")

    return inner


def _several(step: Step) -> Iterator[Step]:
    """Estimators that are fitted on the rows as they come; linear ones are one estimator of several outputs."""
    if all(hasattr(each, "coef_") for each in _flat(step.estimator.estimators_)):
        return
    for place, each in enumerate(_flat(step.estimator.estimators_)):
        yield step.inner(str(place), each)


def _flat(estimators: Any) -> Iterable[Any]:
    return np.asarray(estimators, dtype=object).ravel().tolist()


def _named(step: Step) -> Iterator[Step]:
    """Voting and stacking: base estimators on the rows, and a final one on their predictions."""
    for name, each in step.estimator.named_estimators_.items():
        yield step.inner(name, each)
    final = getattr(step.estimator, "final_estimator_", None)
    if final is None:
        return
    width, given = int(step.estimator.n_features_in_), int(getattr(final, "n_features_in_", 0))
    if step.estimator.passthrough and given > width:  # the rows stand behind the predictions
        yield step.inner("final_estimator_", final, Among(given - width, width))
    else:
        yield step.inner("final_estimator_", final, Lost("it is fitted on predictions of the base estimators"))


def _bagging(step: Step) -> Iterator[Step]:
    width = int(step.estimator.n_features_in_)
    members = zip(step.estimator.estimators_, step.estimator.estimators_features_, strict=True)
    for place, (each, columns) in enumerate(members):
        yield step.inner(str(place), each, Columns(tuple(int(column) for column in columns), width))


def _calibrated(step: Step) -> Iterator[Step]:
    for place, each in enumerate(step.estimator.calibrated_classifiers_):
        yield step.inner(f"fold {place}", each.estimator)


def _chain(step: Step) -> Iterator[Step]:
    """A classifier chain: every link sees the rows, and behind them the labels before it."""
    width = int(step.estimator.n_features_in_)
    for place, each in enumerate(step.estimator.estimators_):
        yield step.inner(str(place), each, Among(0, width))


CONTAINERS: dict[str, Callable[[Step], Iterator[Step]]] = {
    "Pipeline": _pipeline,
    "ColumnTransformer": _column_transformer,
    "FeatureUnion": _feature_union,
    "BaseSearchCV": _attribute("best_estimator_"),
    "TransformedTargetRegressor": _attribute("regressor_"),
    "SelfTrainingClassifier": _attribute("estimator_", "base_estimator_"),
    "BaseThresholdClassifier": _attribute("estimator_"),
    "FrozenEstimator": _attribute("estimator"),
    "RANSACRegressor": _attribute("estimator_"),
    "SelectFromModel": _attribute("estimator_"),
    "VotingClassifier": _named,
    "VotingRegressor": _named,
    "StackingClassifier": _named,
    "StackingRegressor": _named,
    "BaggingClassifier": _bagging,
    "BaggingRegressor": _bagging,
    "AdaBoostClassifier": _several,
    "AdaBoostRegressor": _several,
    "OneVsRestClassifier": _several,
    "OneVsOneClassifier": _several,
    "OutputCodeClassifier": _several,
    "MultiOutputClassifier": _several,
    "MultiOutputRegressor": _several,
    "ClassifierChain": _chain,
    "RegressorChain": _chain,
    "CalibratedClassifierCV": _calibrated,
}
# Containers that are steps themselves: they choose columns.
_ALSO_STEPS = ("SelectFromModel",)
