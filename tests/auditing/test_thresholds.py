"""Thresholds: what makes an audit fail."""

import pytest

from exhume.auditing.thresholds import MEASURES, Threshold
from exhume.errors import InputError

MEASURED = {
    "recovered": 3,
    "share": 0.5,
    "certain": 2,
    "error": 0.02,
    "predicted_error": 0.01,
    "closest": 0.01,
    "equations_per_unknown": 2.0,
    "verdict": "approximate",
    "law": "grey zone",
}
# A limit that these measurements reach, and one that they do not.
LIMITS = {
    "recovered": ("3", "4"),
    "share": ("0.5", "0.51"),
    "certain": ("2", "3"),
    "error": ("0.02", "0.01"),
    "predicted_error": ("0.05", "0.001"),
    "closest": ("0.3", "0.001"),
    "equations_per_unknown": ("1", "3"),
    "verdict": ("approximate", "exact"),
    "law": ("labels-only", "reconstructible"),
}


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_has_a_limit_that_is_reached_and_one_that_is_not(measure):
    reached, missed = LIMITS[measure]
    assert Threshold.parse(f"{measure}={reached}").reached_by(MEASURED) is True
    assert Threshold.parse(f"{measure}={missed}").reached_by(MEASURED) is False


@pytest.mark.parametrize("measure", MEASURES)
def test_what_was_not_measured_is_neither_reached_nor_missed(measure):
    assert Threshold.parse(f"{measure}={LIMITS[measure][0]}").reached_by({}) is None


@pytest.mark.parametrize("text", ["recovered=1", "share=0.25", "verdict=exact", "law=grey zone"])
def test_a_threshold_reads_back_from_its_own_words(text):
    assert str(Threshold.parse(text)) == text
    assert Threshold.parse(str(Threshold.parse(text))) == Threshold.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recovered", "not of the form measure=limit"),
        ("leaks=1", "unknown measure 'leaks'; valid: certain"),
        ("recovered=many", "'many' is not a number"),
        ("recovered=-1", "must not be negative"),
        ("share=nan", "must not be negative"),
        ("verdict=bad", "unknown threshold 'bad'; valid: approximate, exact, failed"),
    ],
)
def test_a_bad_threshold_names_what_is_valid(text, message):
    with pytest.raises(InputError, match=message):
        Threshold.parse(text)
