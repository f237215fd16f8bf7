"""Training rows that estimators keep are read off and brought back to the units of fit."""

import numpy as np
import pytest
from benches.estimators import KEEPING, count_found, kept_rows, nested
from sklearn import cluster, neighbors
from sklearn.datasets import load_breast_cancer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from exhume.estimators.leaks import count_of_rows, leaks_of
from exhume.estimators.remedies import DISPENSABLE
from exhume.estimators.stored_rows import stored_rows
from exhume.estimators.walk import walk

ROWS = kept_rows()
CLASSES = load_breast_cancer().target[: len(ROWS)]
# Bagging members see some of the columns, and IsolationForest and the classes of GaussianNB keep no row.
KEEP_NONE = ("IsolationForest", "GaussianNB")


@pytest.mark.parametrize("estimator", KEEPING, ids=lambda each: type(each).__name__)
def test_every_kept_row_is_a_training_row(estimator):
    fitted = nested(estimator, ROWS).fit(ROWS, CLASSES)
    kept = [found for step in walk(fitted) if (found := stored_rows(step)) is not None]
    if type(estimator).__name__ in KEEP_NONE:
        assert kept == []
        return
    assert kept
    for each in kept:
        assert each.rows is not None
        assert each.rows.exact
        assert len(each.rows.values) == each.count
        assert count_found(each.rows.values, each.rows.known, ROWS.to_numpy(object)) == each.count


def test_kept_rows_of_nearest_neighbours_are_all_rows_in_their_order():
    fitted = make_pipeline(StandardScaler(), neighbors.KNeighborsRegressor()).fit(ROWS.iloc[:, :5], CLASSES)
    kept = stored_rows(walk(fitted)[-1])
    np.testing.assert_allclose(kept.rows.values, ROWS.iloc[:, :5], rtol=1e-12)


def test_sparse_rows_are_counted_and_declined():
    model = make_pipeline(TfidfVectorizer(), neighbors.KNeighborsClassifier(1)).fit(["a patient", "no patient"], [0, 1])
    kept = stored_rows(walk(model)[-1])
    assert (kept.count, kept.rows) == (2, None)
    assert "sparse" in kept.reason


def test_precomputed_distances_are_no_rows():
    model = neighbors.KNeighborsClassifier(1, metric="precomputed").fit(1 - np.eye(6), [0, 1] * 3)
    assert stored_rows(walk(model)[0]).rows is None


def test_a_cluster_of_one_row_is_that_row():
    rows = np.concatenate([np.zeros((5, 2)) + np.arange(5)[:, None] * 1e-3, [[7.0, -3.0]]])
    kept = stored_rows(walk(cluster.KMeans(2, random_state=0).fit(rows))[0])
    np.testing.assert_allclose(kept.rows.values, [[7.0, -3.0]])


@pytest.mark.parametrize(
    "estimator", [cluster.DBSCAN(eps=50.0), cluster.HDBSCAN(), neighbors.LocalOutlierFactor()], ids=str
)
def test_rows_that_are_not_needed_can_be_deleted(estimator):
    numbers = ROWS.iloc[:, :5].to_numpy()
    fitted = estimator.fit(numbers)
    before = fitted.labels_.copy() if hasattr(fitted, "labels_") else fitted.negative_outlier_factor_.copy()
    delattr(fitted, DISPENSABLE[type(fitted).__name__])
    after = fitted.labels_ if hasattr(fitted, "labels_") else fitted.negative_outlier_factor_
    np.testing.assert_array_equal(before, after)
    assert stored_rows(walk(fitted)[0]) is None


def test_scalers_and_encoders_tell_means_categories_and_the_number_of_rows():
    steps = walk(nested(neighbors.KNeighborsClassifier(), ROWS).fit(ROWS, CLASSES))
    told = {step.name: leaks_of(step.estimator) for step in steps}
    assert told["StandardScaler"] == ("mean and variance of 30 columns, over 60 rows",)
    assert told["OneHotEncoder"][0] == "every category of column sex: f, m"
    assert count_of_rows(steps) == 60
