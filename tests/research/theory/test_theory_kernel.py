"""Checks of the kernel: exponents as predicted, and not for a wrong kernel or a linear activation."""

from dataclasses import replace

import pytest

from exhume import activations
from exhume.research.theory import kernel


@pytest.mark.parametrize("name", ["erf", "relu", "relu+tanh"])
def test_the_kernel_concentrates(name):
    check = kernel.concentration(name, seed=1)
    assert check.passed
    assert check.predicted == -0.5


def test_a_wrong_kernel_is_not_what_features_concentrate_on():
    relu = activations.get("relu")
    check = kernel.concentration(replace(relu, kernel=lambda cosines: 1.2 * relu.kernel(cosines)))
    assert not check.passed
    assert check.fitted > -0.4  # it stays away from the wrong kernel, however wide


def test_the_smallest_eigenvalue_grows_with_the_width():
    check = kernel.smallest_eigenvalue("tanh", seed=1)
    assert check.passed
    assert check.rows[0][2] == pytest.approx(0, abs=1e-10)  # p = n/2: rank n is out of reach


def test_linear_features_of_more_samples_than_dimensions_have_none(linear):
    check = kernel.smallest_eigenvalue(linear, num_samples=40)
    assert not check.passed


def test_the_smallest_eigenvalue_does_not_depend_on_the_dimension(linear):
    assert kernel.smallest_eigenvalue_jointly("waves", seed=1).passed
    assert not kernel.smallest_eigenvalue_jointly(linear).passed
