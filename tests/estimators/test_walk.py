"""Fitted estimators are walked step by step, and the rows before each step are given back."""

import numpy as np
import pandas as pd
import pytest
from sklearn import compose, decomposition, ensemble, feature_selection, impute, multiclass, preprocessing, svm
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.random_projection import GaussianRandomProjection

from exhume import InputError
from exhume.estimators.undo import NotInvertible, Rows, undo, undo_all
from exhume.estimators.walk import walk

GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.normal(5, 2, (20, 3)).clip(0.5)
CLASSES = np.arange(20) % 2
MIXED = pd.DataFrame(ROWS, columns=["a", "b", "c"]).assign(sex=GENERATOR.choice(["f", "m"], 20))


def test_search_vote_and_columns_lead_to_their_estimators():
    columns = compose.ColumnTransformer(
        [("scaled", preprocessing.StandardScaler(), ["a", "b"]), ("sex", preprocessing.OneHotEncoder(), ["sex"])]
    )
    vote = ensemble.VotingClassifier([("svc", svm.SVC()), ("near", KNeighborsClassifier())])
    model = GridSearchCV(make_pipeline(columns, vote), {"votingclassifier__svc__C": [1.0]}, cv=2).fit(MIXED, CLASSES)
    assert [step.path for step in walk(model)] == [
        "best_estimator_ / columntransformer / scaled",
        "best_estimator_ / columntransformer / sex",
        "best_estimator_ / votingclassifier / svc",
        "best_estimator_ / votingclassifier / near",
    ]


def test_an_unfitted_step_is_named():
    with pytest.raises(InputError, match=r"StandardScaler \(standardscaler\) is not fitted"):
        walk(make_pipeline(preprocessing.StandardScaler(), svm.SVC()))


def test_something_else_is_no_estimator():
    with pytest.raises(InputError, match="is no scikit-learn estimator"):
        walk({"coef": 1})


def test_several_linear_estimators_are_one_of_several_outputs():
    model = multiclass.OneVsRestClassifier(LogisticRegression()).fit(ROWS, np.arange(20) % 3)
    assert [step.name for step in walk(model)] == ["OneVsRestClassifier"]


@pytest.mark.parametrize(
    "transformer",
    [
        preprocessing.StandardScaler(),
        preprocessing.MinMaxScaler(),
        preprocessing.MaxAbsScaler(),
        preprocessing.RobustScaler(),
        preprocessing.PowerTransformer(),
        preprocessing.QuantileTransformer(n_quantiles=20),
        preprocessing.PolynomialFeatures(2),
        preprocessing.FunctionTransformer(np.log1p),
        preprocessing.FunctionTransformer(np.square, np.sqrt),
        decomposition.PCA(),
        decomposition.PCA(whiten=True),
        GaussianRandomProjection(5, random_state=0),
        impute.SimpleImputer(),
        impute.SimpleImputer(add_indicator=True),
        FeatureUnion([("random", RBFSampler(n_components=5)), ("scaled", preprocessing.StandardScaler())]),
    ],
    ids=str,
)
def test_rows_come_back_exactly(transformer):
    back = undo(transformer.fit(ROWS), Rows.of(transformer.transform(ROWS)))
    assert back.exact
    assert back.known.all()
    np.testing.assert_allclose(back.values.astype(float), ROWS, rtol=1e-6)


def test_missing_values_of_an_imputer_with_indicator_come_back_missing():
    rows = ROWS.copy()
    rows[3, 1] = np.nan
    imputer = impute.SimpleImputer(add_indicator=True).fit(rows)
    np.testing.assert_array_equal(undo(imputer, Rows.of(imputer.transform(rows))).values, rows)


def test_categories_are_decoded_and_dropped_columns_are_not_known():
    columns = compose.ColumnTransformer(
        [("b", preprocessing.StandardScaler(), ["b"]), ("sex", preprocessing.OneHotEncoder(drop="first"), ["sex"])]
    ).fit(MIXED)
    back = undo(columns, Rows.of(columns.transform(MIXED)))
    assert back.known.tolist() == [False, True, False, True]
    assert back.values[:, 3].tolist() == MIXED["sex"].tolist()
    np.testing.assert_allclose(back.values[:, 1].astype(float), MIXED["b"])


def test_a_selection_keeps_the_other_columns_unknown():
    chosen = feature_selection.SelectKBest(k=2).fit(ROWS, CLASSES)
    scaler = preprocessing.StandardScaler().fit(ROWS)
    rows = Rows.of(chosen.transform(scaler.transform(ROWS)))
    back = undo_all((scaler, chosen), rows)
    assert back.known.sum() == 2
    np.testing.assert_allclose(back.values[:, back.known], ROWS[:, back.known])


@pytest.mark.parametrize(
    "transformer", [decomposition.PCA(2), preprocessing.KBinsDiscretizer(3, encode="ordinal")], ids=str
)
def test_what_is_lost_is_said(transformer):
    back = undo(transformer.fit(ROWS), Rows.of(transformer.transform(ROWS)))
    assert not back.exact
    assert back.notes


@pytest.mark.parametrize("transformer", [RBFSampler(), preprocessing.FunctionTransformer(np.abs)], ids=str)
def test_what_cannot_be_undone_is_refused(transformer):
    with pytest.raises(NotInvertible):
        undo(transformer.fit(ROWS), Rows.of(transformer.transform(ROWS)))
