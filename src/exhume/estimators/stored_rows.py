"""Training rows that estimators keep: one table says which attribute of which estimator holds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from exhume.errors import InputError
from exhume.estimators.undo import Rows, undo_all
from exhume.estimators.walk import Step, family


@dataclass(frozen=True)
class Store:
    """Where a class of estimators keeps training rows.

    Attributes:
        attribute: that holds them, as a reader of the file sees it.
        which: which of the training rows these are.
        read: from the fitted estimator; an array (m, d) or a sparse matrix, of no rows if it keeps none after all.
    """

    attribute: str
    which: str
    read: Callable[[Any], Any]


def _attribute(path: str) -> Callable[[Any], Any]:
    """Reads an attribute, or one of an attribute: "tree_.data"."""

    def read(estimator: Any) -> Any:
        for name in path.split("."):
            estimator = getattr(estimator, name, None)
        return estimator

    return read


def _store(path: str, which: str = "all rows") -> Store:
    return Store(path, which, _attribute(path))


def _of_gaussian_processes(estimator: Any) -> Any:
    """One latent process holds the rows, or one for each class, with the same rows or those of two classes."""
    inner = estimator.base_estimator_
    held = [each.X_train_ for each in getattr(inner, "estimators_", [inner])]
    return np.unique(np.concatenate(held), axis=0) if len(held) > 1 else held[0]


def _of_clusters_of_one(estimator: Any) -> Any:
    """The centre of a cluster of one row is that row."""
    counts = np.bincount(estimator.labels_, minlength=len(estimator.cluster_centers_))
    return estimator.cluster_centers_[counts == 1]


def _of_classes_of_one(estimator: Any) -> Any:
    """The mean of a class of one row is that row."""
    return estimator.theta_[estimator.class_count_ == 1]


_NEIGHBOURS = _store("_fit_X")
_SUPPORT = _store("support_vectors_", "the support vectors")
STORES: dict[str, Store] = {
    "NeighborsBase": _NEIGHBOURS,  # all nearest-neighbour estimators, LocalOutlierFactor
    "KNNImputer": _NEIGHBOURS,
    "BaseLibSVM": _SUPPORT,  # SVC, NuSVC, SVR, NuSVR, OneClassSVM
    "KernelRidge": _store("X_fit_"),
    "KernelPCA": _store("X_fit_"),
    "GaussianProcessRegressor": _store("X_train_"),
    "GaussianProcessClassifier": Store("base_estimator_.X_train_", "all rows", _of_gaussian_processes),
    "Nystroem": _store("components_", "a random choice of n_components rows"),
    "BaseLabelPropagation": _store("X_"),
    "DBSCAN": _store("components_", "the core samples"),
    "HDBSCAN": _store("_raw_data"),
    "AffinityPropagation": _store("cluster_centers_", "the exemplars"),
    "Isomap": _store("nbrs_._fit_X"),
    "LocallyLinearEmbedding": _store("nbrs_._fit_X"),
    "KernelDensity": _store("tree_.data"),
    "KMeans": Store("cluster_centers_", "rows that are a cluster of their own", _of_clusters_of_one),
    "GaussianNB": Store("theta_", "rows that are a class of their own", _of_classes_of_one),
}


@dataclass(frozen=True)
class StoredRows:
    """Rows that a step of a pipeline keeps.

    Attributes:
        step: that keeps them.
        store: where.
        count: how many, whether or not they can be brought back to the units of `fit`.
        rows: as they were passed to `fit`; None if they cannot be brought back.
        reason: why they cannot.
    """

    step: Step
    store: Store
    count: int
    rows: Rows | None = None
    reason: str = ""


def store_of(estimator: Any) -> Store | None:
    """Where an estimator of this class keeps rows; None if no such place is known."""
    return next((STORES[name] for name in family(estimator) if name in STORES), None)


def stored_rows(step: Step) -> StoredRows | None:
    """The rows that a step keeps, in the units of `fit`; None if it keeps none.

    >>> from exhume.estimators.walk import walk
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> model = make_pipeline(StandardScaler(), KNeighborsClassifier(1)).fit([[61.0], [35.0]], [0, 1])
    >>> stored_rows(walk(model)[-1]).rows.values.ravel().tolist()
    [61.0, 35.0]
    """
    store = store_of(step.estimator)
    held = None if store is None else store.read(step.estimator)
    if store is None or held is None or len(getattr(held, "shape", ())) != 2 or not held.shape[0]:
        return None
    if sparse.issparse(held):
        return StoredRows(step, store, held.shape[0], reason="they are kept as a sparse matrix; exhume reads tables")
    if getattr(step.estimator, "metric", None) == "precomputed" or (
        getattr(step.estimator, "kernel", None) == "precomputed"
    ):
        return StoredRows(step, store, 0, reason="it holds distances or kernel values between rows, not the rows")
    try:
        return StoredRows(step, store, len(held), undo_all(step.before, Rows.of(held)))
    except InputError as error:
        return StoredRows(step, store, len(held), reason=str(error))
