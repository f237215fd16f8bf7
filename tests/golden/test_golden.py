"""Small attacks give the results recorded in golden.json; `golden_cases.py` explains how to record them again."""

import pytest
from golden_cases import CASES, measured, recorded

# What must be as recorded; all else is compared with a tolerance.
EQUAL = ("verdict", "stop", "samples", "equations", "unknowns", "signs_determined", "norms_determined")
# Errors and residuals may be so many times as large or small. At rounding they may be anything below ROUNDING.
FACTOR, ROUNDING = 2.0, 5e-6


def assert_close(name, now, before):
    """Two numbers, either None, within FACTOR or both at rounding."""
    if now is None or before is None:
        assert now == before, name
    elif before > ROUNDING or now > ROUNDING:
        assert before / FACTOR <= now <= before * FACTOR, (name, now, before)


def test_every_case_is_recorded():
    assert set(recorded()) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_an_attack_gives_the_recorded_result(name):
    case, before = CASES[name], recorded()[name]
    now = measured(case)
    assert {key: now[key] for key in EQUAL} == {key: before[key] for key in EQUAL}
    assert now["passes"] == pytest.approx(before["passes"], rel=case.passes_within)
    assert now["steps"] == pytest.approx(before["steps"], rel=2 * case.passes_within, abs=2)  # searches look every ten
    for key in ("residual", "error_up_to_sign", "predicted_error"):
        assert_close(key, now[key], before[key])
    if now["signs_determined"]:
        assert_close("error", now["error"], before["error"])
    assert (now["labels"] is None) == (before["labels"] is None)
    if now["labels"] is not None:
        scale = max(map(abs, flat(before["labels"])))
        assert flat(now["labels"]) == pytest.approx(flat(before["labels"]), rel=1e-2, abs=1e-2 * scale)


def flat(values):
    """Labels of one output or of several, in one list."""
    return [number for value in values for number in (value if isinstance(value, list) else [value])]
