"""Audits of estimators: rows in their own units beside the true ones, the steps drawn, outcomes and exit codes."""

import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy.sparse import csr_matrix
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler, SkewedChi2Sampler
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

import exhume
from exhume import InputError, cli
from exhume.auditing import folder
from exhume.estimators.findings import StepKind
from exhume.report import page
from exhume.report.html_table import _agreeing

ROWS = load_breast_cancer(as_frame=True).data.iloc[:24, :4].assign(sex=["f", "m", "m"] * 8)
CLASSES = load_breast_cancer().target[:24] + np.arange(24) % 2


def neighbours():
    columns = make_column_transformer((StandardScaler(), list(ROWS.columns[:4])), (OneHotEncoder(), ["sex"]))
    return make_pipeline(columns, KNeighborsClassifier()).fit(ROWS, CLASSES)


def test_kept_rows_are_the_result_in_their_own_units():
    found = exhume.audit(neighbours(), truth=ROWS)
    assert found.score.recovered == 24
    assert found.outcome.value == "recovered"
    np.testing.assert_allclose(found.result.samples[:, :4].numpy(), ROWS.iloc[:, :4], rtol=1e-12)
    assert found.report.verdict.headline == (
        "This file holds its training data: all 24 training rows stand in it (KNeighborsClassifier)."
    )


def test_the_truth_is_for_the_score_alone():
    model = neighbours()
    told, alone = exhume.audit(model, truth=ROWS.iloc[::-1]), exhume.audit(model)
    assert told.result.samples.equal(alone.result.samples)
    assert (alone.score, alone.outcome.value) == (None, "recovered")


def test_the_page_shows_names_categories_agreeing_digits_and_what_each_step_leaks():
    found = exhume.audit(neighbours(), truth=ROWS)
    text = page.render(found.report)
    assert "mean radius" in text
    assert "<b>17.990</b>" in text
    assert "<b>f</b>" in text
    assert "Mean and variance of 4 columns, over 24 rows." in text
    assert "Every category of column sex: f, m." in text
    assert "24 rows kept" in text
    assert found.report.remedies[0].title == "Do not publish KNeighborsClassifier"


def test_digits_agree_from_the_first_one_on():
    pairs = (("12.345", "12.399"), ("1.23", "12.3"), ("-1.5", "1.5"), ("7", "7"))
    assert [_agreeing(*pair) for pair in pairs] == [4, 0, 0, 1]


def test_a_redacted_page_shows_no_value():
    text = page.render(exhume.audit(neighbours(), truth=ROWS, redact=True).report)
    assert "17.99" not in text


def test_an_audit_is_read_back_from_its_folder(tmp_path):
    found = exhume.audit(neighbours(), truth=ROWS, out=tmp_path / "audit")
    assert folder.load(tmp_path / "audit").report == found.report
    assert folder.load(tmp_path / "audit").pipeline == found.pipeline


@pytest.mark.parametrize(
    ("model", "kind", "reason"),
    [
        (RandomForestClassifier(3), StepKind.DECLINED, "thresholds"),
        (make_pipeline(StandardScaler(), LogisticRegression()), StepKind.DECLINED, "one combination of all rows"),
        (make_pipeline(StandardScaler(), RBFSampler(), Lasso()), StepKind.DECLINED, "penalty on absolute values"),
        (make_pipeline(StandardScaler(), MLPClassifier(max_iter=2)), StepKind.DECLINED, "Adam"),
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_was_not_examined_is_inconclusive_and_says_why(model, kind, reason):
    found = exhume.audit(model.fit(ROWS.iloc[:, :4], CLASSES))
    assert (found.pipeline.steps[-1].kind, found.outcome.value, found.exit_code) == (kind, "inconclusive", 3)
    assert reason in " ".join(found.report.verdict.sentences)


def test_texts_are_declined_with_the_reason():
    model = make_pipeline(TfidfVectorizer(), KNeighborsClassifier(1)).fit(["one patient", "two patients"], [0, 1])
    with pytest.raises(InputError, match="TfidfVectorizer .* it reads texts"):
        exhume.audit(model)


def test_rows_behind_a_projection_are_reported_and_not_certified():
    model = make_pipeline(StandardScaler(), PCA(2), KNeighborsClassifier()).fit(ROWS.iloc[:, :4], CLASSES)
    found = exhume.audit(model)
    assert found.pipeline.steps[-1].rows == 24
    assert found.findings.certified == 0
    assert "not in the units" in found.report.verdict.headline


@pytest.mark.parametrize(
    "features",
    [
        (StandardScaler(), PolynomialFeatures(3)),
        (StandardScaler(), PolynomialCountSketch(degree=3, coef0=1, gamma=0.3, n_components=200, random_state=0)),
        (StandardScaler(), SparseRandomProjection(100, random_state=0), FunctionTransformer(np.exp)),
        (MinMaxScaler((0.1, 1)), SkewedChi2Sampler(skewedness=0.1, n_components=120, random_state=0)),
    ],
    ids=lambda steps: type(steps[1]).__name__,
)
def test_rows_behind_other_features_than_random_fourier_ones_come_back(features):
    rows = ROWS.iloc[::6, :4].to_numpy()
    found = exhume.audit(make_pipeline(*features, Ridge(0.1)).fit(rows, [1.0, 3.0, 2.0, 5.0]), truth=rows)
    assert found.result.certificate.verdict == "exact"
    assert max(found.score.claimed_errors) < 1e-6


def test_rows_behind_an_odd_function_are_not_returned_because_their_signs_are_open():
    steps = (StandardScaler(), GaussianRandomProjection(100, random_state=0), FunctionTransformer(np.tanh))
    found = exhume.audit(make_pipeline(*steps, Ridge(0.1)).fit(ROWS.iloc[::6, :4], [1.0, 3.0, 2.0, 5.0]))
    assert found.result is None
    assert "Without norms and signs" in found.pipeline.steps[-1].reason


def test_sparse_rows_are_counted_and_declined_with_the_reason():
    rows = csr_matrix(np.eye(6))
    found = exhume.audit(KNeighborsClassifier(1).fit(rows, [0, 1] * 3))
    assert (found.outcome.value, found.pipeline.steps[0].rows) == ("inconclusive", 6)
    assert "sparse matrix" in found.pipeline.steps[0].reason


def test_an_estimator_of_fewer_bytes_than_values_cannot_hold_them():
    rows = load_breast_cancer().data
    found = exhume.audit(make_pipeline(StandardScaler(), Ridge()).fit(rows, rows[:, 0]))
    assert (found.outcome.value, found.exit_code) == ("not-recoverable", 0)


def test_columns_of_the_truth_are_taken_by_name():
    shuffled = ROWS[["sex", *ROWS.columns[3::-1]]]
    assert exhume.audit(neighbours(), truth=shuffled).score.recovered == 24


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"truth": ROWS.iloc[:, :3]}, r"truth of shape \(24, 3\); valid: \(n, 5\)"),
        ({"input_shape": (5,)}, "input_shape cannot be set for an estimator"),
        ({"labels": CLASSES}, "labels cannot be given for an estimator"),
        ({"fail_on": ["recovered=1"]}, "needs the truth"),
    ],
    ids=str,
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(InputError, match=message):
        exhume.audit(neighbours(), **settings)


def test_something_else_than_a_model_is_refused_by_its_type():
    with pytest.raises(InputError, match="an audit of a DataFrame; valid: a torch"):
        exhume.audit(pd.DataFrame())


def test_the_command_line_audits_a_skops_file(tmp_path, monkeypatch, capsys):
    skops.io.dump(neighbours(), tmp_path / "model.skops")
    ROWS.assign(label=CLASSES).to_csv(tmp_path / "rows.csv", index=False)
    words = ["exhume", "audit", "--estimator", str(tmp_path / "model.skops"), "--truth", str(tmp_path / "rows.csv")]
    monkeypatch.setattr("sys.argv", [*words, "--fail-on", "recovered=1", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert "all 24 training rows stand in it" in capsys.readouterr().out
    assert (tmp_path / "out" / "report.html").exists()
