"""Tuned numbers: found wherever they stand, replaced one at a time, and scaled within their range."""

from dataclasses import dataclass

import pytest
from benches.tuned_numbers import scaled, tuned_numbers, with_number

from exhume.support.tuning import tuned


@dataclass(frozen=True)
class Rule:
    max_steps: int = 15
    tolerance: float = 1e-5


@dataclass(frozen=True)
class Inner:
    margin: float = tuned(3.0, "x rounding", problem="a", suite="small")
    fall: float = tuned(0.9, "share", problem="a", suite="small")


@dataclass(frozen=True)
class Tuning:
    inner: Inner = Inner()
    rule: Rule = tuned(Rule(), "steps and residual", problem="b", suite="large", rare="never seen")
    flag: bool = tuned(True, "", problem="b", suite="large")


def test_numbers_are_found_in_nested_dataclasses_with_their_evidence():
    numbers = {each.name: each for each in tuned_numbers(Tuning())}
    assert list(numbers) == ["inner.margin", "inner.fall", "rule.max_steps", "rule.tolerance"]
    assert numbers["inner.margin"].evidence.suite == "small"
    assert numbers["rule.tolerance"].evidence.rare == "never seen"


def test_one_number_is_replaced_and_the_others_stay():
    changed = with_number(Tuning(), ("rule", "max_steps"), 30)
    assert changed.rule == Rule(30, 1e-5)
    assert changed.inner == Inner()


@pytest.mark.parametrize(
    ("name", "half", "double"),
    [("inner.margin", 1.5, 6.0), ("inner.fall", 0.8, 0.95), ("rule.max_steps", 8, 30), ("rule.tolerance", 5e-6, 2e-5)],
)
def test_halving_and_doubling(name, half, double):
    (number,) = [each for each in tuned_numbers(Tuning()) if each.name == name]
    assert scaled(number, 0.5) == pytest.approx(half)
    assert scaled(number, 2.0) == pytest.approx(double)
