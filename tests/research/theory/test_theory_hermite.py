"""Checks of Hermite coefficients: they hold, and wrong activations fail them."""

from dataclasses import replace

import pytest
import torch

from exhume import activations
from exhume.activations import Activation
from exhume.errors import InputError
from exhume.research.theory import hermite


def test_coefficients_and_parities_of_all_activations_hold():
    assert hermite.coefficients().passed
    assert hermite.parities().passed
    assert set(hermite.NAMES) == {*activations.names(), "waves"}


def test_a_quadrature_that_misses_the_kink_fails():
    shifted = replace(activations.get("relu"), value=lambda z: torch.relu(z - 0.01))
    assert not hermite.coefficients([shifted]).passed


@pytest.mark.parametrize(("name", "parity"), [("tanh", "even"), ("abs", "none"), ("gelu", "odd"), ("relu", "even")])
def test_a_false_parity_fails(name, parity):
    assert not hermite.parities([replace(activations.get(name), parity=parity)]).passed


def test_a_false_condition_of_assumption_2_fails():
    class Optimistic(Activation):
        def assumption_2(self):
            return dict.fromkeys(super().assumption_2(), True)

    relu = activations.get("relu")
    optimistic = Optimistic(**{name: getattr(relu, name) for name in relu.__dataclass_fields__})
    assert hermite.parities([relu]).passed
    assert not hermite.parities([optimistic]).passed


def test_the_table_says_what_the_papers_example_lacks():
    row = next(row for row in hermite.parities().rows if row[0] == "relu+tanh")
    assert row[-2] is True  # both parities above 2, which is what its signs need
    assert row[-1] == "Lipschitz slope, mu_0 = mu_2 = 0"


def test_smooth_activations_of_ones_own_have_a_reference():
    sine = Activation("sine", torch.sin, torch.cos, "odd")
    assert hermite.coefficients([sine]).passed
    assert hermite.parities([sine]).passed


def test_activations_with_kinks_and_no_closed_form_are_refused():
    kinked = replace(activations.get("abs"), name="kinked")
    with pytest.raises(InputError, match="'kinked', which has kinks; valid: relu"):
        hermite.coefficients([kinked])
