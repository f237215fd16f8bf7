"""`exhume law --verify`: tables, JSON and exit codes; the other form of the command still asks for sizes."""

import pytest

from exhume.research import theory
from exhume.research.theory import hermite, span_recovery, wall
from exhume.research.theory.setting import Check, PowerLaw

FAST = (
    lambda seed: hermite.parities(),
    lambda seed: span_recovery.signs(seed=seed),
    lambda seed: wall.open_directions(seed=seed),
)


def failing(seed):
    law = PowerLaw([1, 2, 4], [1.0, 4.0, 16.0], exponent=1.0, tolerance=0.1)
    return law.check("too fast", "It is linear.", ("x", "y"), [(1, 1.0)])


def without_fit(seed):
    return Check("none", "It grows.", ("x", "y"), ((1, None),), passed=False, tolerance=0.1, predicted=1.0)


@pytest.fixture
def checks(monkeypatch):
    """Replaces all checks by a few."""
    return lambda *some: monkeypatch.setattr(theory, "CHECKS", some)


def test_json_holds_every_check(exhume_json, checks):
    checks(*FAST)
    code, value = exhume_json("law", "--verify", "--seed", 3)
    assert code == 0
    assert value["passed"] is True
    assert [check["passed"] for check in value["checks"]] == [True] * 3
    assert value["checks"][1]["rows"] == [list(row) for row in span_recovery.signs(seed=3).rows]
    assert set(value["checks"][0]) == {
        "name", "statement", "columns", "rows", "fitted", "predicted", "tolerance", "passed",
    }  # fmt: skip
    assert exhume_json("law", "--verify", "--seed", 3) == (code, value)


def test_a_failed_check_is_exit_code_1(exhume_json, exhume_command, checks):
    checks(FAST[0], failing, without_fit)
    code, value = exhume_json("law", "--verify")
    assert code == 1
    assert value["passed"] is False
    code, out, _ = exhume_command("law", "--verify")
    assert code == 1
    assert "fitted exponent 2.000, predicted 1 (tolerance 0.1): does not hold" in out
    assert "fitted exponent none, predicted 1 (tolerance 0.1): does not hold" in out
    assert out.rstrip().endswith("1 of 3 statements hold (seed 0).")


def test_tables_are_aligned(exhume_command, checks):
    checks(FAST[1])
    _, out, err = exhume_command("law", "--verify")
    assert err == ""
    lines = out.splitlines()
    heading = next(line for line in lines if "declared parity" in line)
    rows = lines[lines.index(heading) + 2 :][:7]  # below the rule
    assert all(row.endswith((" yes", " no")) for row in rows)
    assert {len(row) for row in rows} == {len(heading)}
    assert "  holds (tolerance 1e-12)" in lines


def test_all_checks_are_run():
    assert len(theory.CHECKS) == 22


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ((), "--parameters, --dim, --samples"),
        (("--parameters", 100), "--dim, --samples"),
        (("--parameters", 100, "--dim", 3), "--samples"),
    ],
)
def test_a_forecast_names_the_size_that_is_missing(exhume_command, given, missing):
    code, out, err = exhume_command("law", *given)
    assert (code, out) == (2, "")
    assert f"missing {missing};" in err


def test_sizes_and_verification_exclude_each_other(exhume_command):
    code, _, err = exhume_command("law", "--verify", "--dim", 3, "--samples", 4)
    assert code == 2
    assert "--verify does not take --dim, --samples" in err


def test_a_forecast_has_no_seed(exhume_command):
    code, _, err = exhume_command("law", "--parameters", 100, "--dim", 3, "--samples", 4, "--seed", 1)
    assert code == 2
    assert "a forecast does not take --seed" in err
