"""Fits, kernels and the activation that the checks of the theory share."""

import json
import math

import pytest
import torch

from exhume import activations
from exhume.research.theory import Check, fit_exponent, verify
from exhume.research.theory.setting import (
    WAVES,
    PowerLaw,
    entries,
    feature_kernel,
    feature_map,
    named,
    sphere_samples,
)

COSINES = torch.linspace(-1, 1, 41, dtype=torch.float64)


@pytest.mark.parametrize("exponent", [-0.5, 0.0, 1.0, 2.5])
def test_the_exponent_of_a_power_law_is_found(exponent):
    sizes = [3, 10, 40, 200]
    assert fit_exponent(sizes, [7 * size**exponent for size in sizes]) == pytest.approx(exponent, abs=1e-12)


@pytest.mark.parametrize("values", [[1.0, 0.0, 2.0], [1.0, -1.0, 2.0], [1.0, math.nan, 2.0], [1.0, math.inf, 2.0]])
def test_values_without_logarithms_have_no_exponent(values):
    assert fit_exponent([1, 2, 3], values) is None


def test_one_point_has_no_exponent():
    assert fit_exponent([2.0], [3.0]) is None


@pytest.mark.parametrize(
    ("values", "also", "passed"),
    [([1, 2, 4], True, True), ([1, 2, 4], False, False), ([1, 4, 16], True, False), ([0, 2, 4], True, False)],
)
def test_a_check_passes_only_with_the_predicted_exponent(values, also, passed):
    check = PowerLaw([1, 2, 4], values, exponent=1.0, tolerance=0.1).check("", "", (), [], also=also)
    assert check.passed is passed


def test_a_check_is_json():
    check = Check("a", "b", ("c", "d"), ((1, 2.5), ("e", None)), passed=False, tolerance=0.1, predicted=1.0)
    value = json.loads(json.dumps(check.to_json(), allow_nan=False))
    assert value["columns"] == ["c", "d"]
    assert value["rows"] == [[1, 2.5], ["e", None]]
    assert value["passed"] is False


def relu_kernel(c):
    return ((1 - c * c).clamp(min=0).sqrt() + c * (math.pi - c.arccos())) / (2 * math.pi)


CLOSED = {
    "relu": relu_kernel,
    "abs": lambda c: 2 / math.pi * ((1 - c * c).clamp(min=0).sqrt() + c * c.arcsin()),
    "erf": lambda c: 2 / math.pi * (2 * c / 3).arcsin(),
}


@pytest.mark.parametrize("name", CLOSED)
def test_kernels_have_their_closed_form(name):
    torch.testing.assert_close(feature_kernel(name, COSINES), CLOSED[name](COSINES), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["waves", "tanh", "relu+tanh", "softplus"])
def test_kernels_are_power_series_of_squared_hermite_coefficients(name):
    cosines = COSINES[COSINES.abs() < 0.8]
    mu = named(name).hermite(80)
    series = (mu.square() * cosines[:, None] ** torch.arange(81)).sum(1)
    torch.testing.assert_close(feature_kernel(name, cosines), series, rtol=0, atol=1e-8)


def test_waves_meet_assumption_2_and_are_what_they_declare(monkeypatch):
    assert WAVES.meets_assumption_2
    monkeypatch.setattr(activations, "_REGISTERED", {})
    activations.register(WAVES)  # which checks slope, parity, homogeneity and kernel on a grid


def test_no_built_in_activation_meets_assumption_2_to_the_letter():
    assert not any(activations.get(name).meets_assumption_2 for name in activations.names())


def test_samples_and_features_are_those_of_the_theorems():
    inputs = sphere_samples(5, 12, 0, "a")
    assert inputs.norm(dim=1).tolist() == pytest.approx([math.sqrt(12)] * 5)
    assert not torch.equal(inputs, sphere_samples(5, 12, 0, "b"))
    assert not torch.equal(inputs, sphere_samples(5, 12, 1, "a"))
    features = feature_map(4096, 12, "relu", 0, "a")
    matrix = entries(features)
    assert matrix.shape == (4096, 12)
    assert float(matrix.var()) == pytest.approx(1 / 12, rel=0.05)
    torch.testing.assert_close(features.forward(inputs), (inputs @ matrix.T).relu())


@pytest.mark.slow
def test_everything_holds():
    checks = verify(seed=0)
    assert [check.name for check in checks if not check.passed] == []
