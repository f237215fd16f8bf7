"""Whole numbers and decimals of recovered rows are rounded where error bars leave no doubt, and nowhere else."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import exhume
from exhume.estimators.rounding import bars_in_units, decimals_of, rounded
from exhume.estimators.undo import Rows, undo_all

pd = pytest.importorskip("pandas")
GENERATOR = np.random.default_rng(0)


def test_the_fewest_decimals_that_the_values_have_are_found():
    values = np.array([1.25, 3.5, 2.75, 8.0])
    assert decimals_of(values + 1e-7, np.full(4, 1e-6)) == 2


@pytest.mark.parametrize(
    ("values", "bar"),
    [(GENERATOR.normal(size=8), 1e-9), (np.arange(8.0), 0.2), (np.arange(2.0), 1e-12), (np.arange(8.0) + 1e-3, 1e-4)],
    ids=["no grid", "long bars", "two values", "beside the grid"],
)
def test_without_evidence_nothing_is_rounded(values, bar):
    decimals = decimals_of(values, np.full(len(values), bar))
    assert decimals is None or decimals >= 3


def test_bars_are_in_the_units_of_fit():
    rows = np.array([[10.0, 2000.0], [20.0, 5000.0], [60.0, 1000.0]])
    scaler = StandardScaler().fit(rows)
    samples = scaler.transform(rows)
    bars = bars_in_units(lambda each: undo_all([scaler], each), samples, (1e-3, 1e-3, 1e-3))
    expected = 1e-3 * np.linalg.norm(samples, axis=1)[:, None] * scaler.scale_
    np.testing.assert_allclose(bars, expected, rtol=1e-9)


def test_a_row_with_a_long_bar_is_left_as_it_is():
    rows = Rows.of(np.array([[1.0000001], [2.0000001], [3.0000001], [4.4]]))
    bars = np.array([[1e-6], [1e-6], [1e-6], [0.9]])
    again = rounded(rows, bars, ["age"])
    assert again.values[:, 0].tolist() == [1.0, 2.0, 3.0, 4.4]
    assert again.notes == (
        "Rounded, because every value lies within its error bar of such a number: to whole numbers: age.",
    )


def test_codes_of_categories_are_rounded_before_they_are_decoded():
    encoder = OrdinalEncoder().fit([["a"], ["b"], ["c"]])
    assert undo_all([encoder], Rows.of([[0.9999999], [2.0000001]])).values[:, 0].tolist() == ["b", "c"]


def test_an_audit_rounds_ages_and_amounts_and_decodes_categories():
    table = pd.DataFrame(
        {
            "age": GENERATOR.integers(20, 80, 5).astype(float),
            "amount": GENERATOR.integers(100, 99_999, 5) / 100,
            "measured": GENERATOR.normal(size=5),
            "sex": ["f", "m", "m", "f", "f"],
        }
    )
    columns = make_column_transformer((StandardScaler(), ["age", "amount", "measured"]), (OneHotEncoder(), ["sex"]))
    model = make_pipeline(columns, RBFSampler(gamma=0.2, n_components=200, random_state=0), Ridge(alpha=0.1))
    found = exhume.audit(model.fit(table, [1.0, 2.0, 4.0, 3.0, 5.0]), truth=table, budget_seconds=60)
    assert found.result.certificate.verdict == "exact"
    for name, place in (("age", 0), ("amount", 1)):
        assert sorted(found.result.samples[:, place].tolist()) == sorted(table[name])
    note = next(each for each in found.notes if each.startswith("Rounded"))
    assert "to whole numbers: age" in note
    assert "to 2 decimals: amount" in note
    assert "measured" not in note
    assert found.score.recovered == 5
