"""Activations against closed forms, finite differences, Parseval and independent quadratures."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from exhume import activations
from exhume.activations import Activation
from exhume.errors import InputError

BUILT_IN = ("abs", "erf", "gelu", "relu", "relu+tanh", "sigmoid", "softplus", "tanh")
ALL = pytest.mark.parametrize("name", BUILT_IN)

REFERENCE = {
    "relu": lambda z: np.maximum(z, 0),
    "relu+tanh": lambda z: np.maximum(z, 0) + np.tanh(z),
    "tanh": np.tanh,
    "erf": special.erf,
    "gelu": lambda z: z * stats.norm.cdf(z),
    "softplus": lambda z: np.logaddexp(0, z),
    "sigmoid": special.expit,
    "abs": np.abs,
}


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activations, "_REGISTERED", {})


def leaky(name: str = "leaky", **changes: object) -> Activation:
    """max(z, z / 4) with its correct properties, except for the given changes."""
    activation = Activation(
        name=name,
        value=lambda z: torch.maximum(z, z / 4),
        slope=lambda z: torch.where(z > 0, 1.0, 0.25).to(z.dtype),
        parity="none",
        homogeneity=1,
        kinks=(0.0,),
        slope_is_lipschitz=False,
    )
    return replace(activation, **changes)  # type: ignore[arg-type]


def gaussian_mean(function: Callable[[float], float], *breaks: float) -> float:
    """E[function(g)] by scipy's adaptive quadrature, split at the breaks."""
    edges = [-14.0, *breaks, 14.0]
    parts = [
        integrate.quad(lambda g: function(g) * stats.norm.pdf(g), left, right, epsabs=1e-14, epsrel=1e-13, limit=400)[0]
        for left, right in pairwise(edges)
    ]
    return math.fsum(parts)


@ALL
def test_values_match_numpy_in_both_precisions(name: str) -> None:
    z = torch.linspace(-30, 30, 4001, dtype=torch.float64)
    activation = activations.get(name)
    expected = torch.from_numpy(REFERENCE[name](z.numpy()))
    torch.testing.assert_close(activation.value(z), expected, rtol=1e-13, atol=1e-14)
    single = activation.value(z.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), expected, rtol=1e-5, atol=1e-5)


@ALL
def test_slope_is_the_derivative_and_needs_no_graph(name: str) -> None:
    activation = activations.get(name)
    z = torch.linspace(-8.01, 8, 1000, dtype=torch.float64)
    step = 1e-5
    difference = (activation.value(z + step) - activation.value(z - step)) / (2 * step)
    torch.testing.assert_close(activation.slope(z), difference, rtol=1e-8, atol=1e-9)
    assert activation.slope(z.float()).dtype == torch.float32
    with torch.inference_mode():
        assert activation.slope(z.reshape(10, 100)).shape == (10, 100)


def test_relu_slope_at_zero_is_zero() -> None:
    assert activations.get("relu").slope(torch.zeros(3)).tolist() == [0, 0, 0]


@ALL
@settings(deadline=None, max_examples=30)
@given(z=st.floats(-50, 50))
def test_declared_parity_and_homogeneity_hold(name: str, z: float) -> None:
    activation = activations.get(name)
    point = torch.tensor(z, dtype=torch.float64)
    value, mirrored = float(activation.value(point)), float(activation.value(-point))
    if activation.parity != "none":
        assert mirrored == pytest.approx(value if activation.parity == "even" else -value, abs=1e-15)
    if activation.homogeneity is not None:
        assert float(activation.value(2.5 * point)) == pytest.approx(2.5**activation.homogeneity * value)


def test_relu_hermite_coefficients_have_their_closed_form() -> None:
    mu = activations.get("relu").hermite(40)
    assert mu.dtype == torch.float64
    expected = [1 / math.sqrt(2 * math.pi), 1 / 2, 1 / (2 * math.sqrt(math.pi))]
    assert mu[:3].tolist() == pytest.approx(expected, abs=1e-13)
    for order in range(3, 41):
        closed = 0.0
        if order % 2 == 0:
            sign = (-1) ** (order // 2 + 1)
            closed = sign * special.factorial2(order - 3) / math.sqrt(2 * math.pi * special.factorial(order))
        assert float(mu[order]) == pytest.approx(closed, abs=1e-12)


def test_abs_is_twice_the_even_part_of_relu() -> None:
    absolute, relu = activations.get("abs").hermite(30), activations.get("relu").hermite(30)
    torch.testing.assert_close(absolute[::2], 2 * relu[::2], rtol=0, atol=1e-13)
    torch.testing.assert_close(absolute[1::2], torch.zeros(15, dtype=torch.float64), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["erf", "tanh", "gelu", "softplus", "relu+tanh"])
def test_hermite_coefficients_match_adaptive_quadrature(name: str) -> None:
    mu = activations.get(name).hermite(6)
    for order in range(7):
        polynomial = special.hermitenorm(order)
        scale = math.sqrt(math.factorial(order))
        exact = gaussian_mean(lambda g, h=polynomial, s=scale: REFERENCE[name](g) * h(g) / s, 0.0)
        assert float(mu[order]) == pytest.approx(exact, abs=1e-12)


@ALL
def test_parseval_squares_of_the_coefficients_sum_to_the_second_moment(name: str) -> None:
    second_moment = gaussian_mean(lambda g: REFERENCE[name](g) ** 2, 0.0)
    total = float(activations.get(name).hermite(600).square().sum())
    # With a kink mu_l^2 falls as l^(-5/2), so what is left after order L is of the order L^(-3/2).
    assert total == pytest.approx(second_moment, abs=1e-4 if activations.get(name).kinks else 1e-11)
    assert total <= second_moment + 1e-12


def test_a_kink_away_from_zero_keeps_full_accuracy() -> None:
    place = 0.3
    shifted = leaky("hinge", value=lambda z: torch.relu(z - place), kinks=(place,))
    mean = stats.norm.pdf(place) - place * stats.norm.sf(place)
    assert shifted.hermite(1).tolist() == pytest.approx([mean, stats.norm.sf(place)], abs=1e-13)


@pytest.mark.parametrize("order", [-1, 2.0, True])
def test_a_bad_hermite_order_is_refused(order: object) -> None:
    with pytest.raises(InputError, match="order is"):
        activations.get("relu").hermite(order)  # type: ignore[arg-type]


def tensor_quadrature(activation: Activation, cosine: float) -> float:
    """E[phi'(z_1) phi'(z_2)] in polar coordinates, where each jump at 0 lies on a ray: an oracle of another kind."""
    angle = math.acos(cosine)
    jumps = np.unique(np.mod([math.pi / 2, -math.pi / 2, angle + math.pi / 2, angle - math.pi / 2], 2 * math.pi))
    edges = np.concatenate(([0.0], jumps, [2 * math.pi]))
    nodes, weights = np.polynomial.legendre.leggauss(60)
    half = np.diff(edges)[:, None] / 2
    turn = ((edges[1:] + edges[:-1])[:, None] / 2 + half * nodes).ravel()
    turn_weights = (half * weights).ravel() / (2 * math.pi)
    radius_nodes, radius_weights = np.polynomial.legendre.leggauss(200)
    radius = 4.75 * (radius_nodes + 1)
    radius_weights = 4.75 * radius_weights * radius * np.exp(-(radius**2) / 2)
    first = torch.from_numpy(np.outer(radius, np.cos(turn)))
    second = torch.from_numpy(np.outer(radius, np.cos(turn - angle)))
    return float(radius_weights @ (activation.slope(first) * activation.slope(second)).numpy() @ turn_weights)


@ALL
def test_slope_kernel_matches_polar_quadrature(name: str) -> None:
    activation = activations.get(name)
    cosines = torch.tensor([-1.0, -0.99, -0.6, 0.0, 0.25, 0.8, 0.9999, 1.0], dtype=torch.float64)
    exact = [tensor_quadrature(activation, float(cosine)) for cosine in cosines]
    assert activation.slope_kernel(cosines).tolist() == pytest.approx(exact, abs=1e-9)
    single = activation.slope_kernel(cosines[:6].float())
    assert single.dtype == torch.float32
    assert single.tolist() == pytest.approx(exact[:6], abs=1e-6)


@pytest.mark.parametrize("name", ["relu", "abs", "erf"])
def test_closed_kernels_agree_with_the_quadrature_they_replace(name: str) -> None:
    activation = activations.get(name)
    cosines = torch.linspace(-1, 1, 33, dtype=torch.float64)
    quadrature = replace(activation, kernel=None).slope_kernel(cosines)
    torch.testing.assert_close(activation.slope_kernel(cosines), quadrature, rtol=0, atol=1e-10)


def test_slope_kernel_forgives_rounding_beyond_one() -> None:
    cosines = torch.tensor([[1 + 1e-7, -1 - 1e-7]], dtype=torch.float64)
    assert activations.get("relu").slope_kernel(cosines).tolist() == [[0.5, 0.0]]


def test_relu_and_tanh_together_have_mixed_parity_but_are_not_smooth() -> None:
    activation = activations.get("relu+tanh")
    assert activation.assumption_2() == {
        "non_linear": True,
        "lipschitz": True,
        "lipschitz_slope": False,
        "mu_0_and_mu_2_vanish": False,
        "mu_1_nonzero": True,
        "mixed_parity_above_2": True,
    }
    assert not activation.meets_assumption_2
    assert activation.signs_identified


def test_only_relu_plus_tanh_identifies_signs_by_its_non_linear_part() -> None:
    assert [name for name in BUILT_IN if activations.get(name).signs_identified] == ["relu+tanh"]


def test_tanh_fails_assumption_2_by_its_parity_alone() -> None:
    assert [name for name, met in activations.get("tanh").assumption_2().items() if not met] == ["mixed_parity_above_2"]


def test_abs_has_no_linear_part_and_the_identity_is_linear() -> None:
    assert not activations.get("abs").assumption_2()["mu_1_nonzero"]
    identity = Activation("identity", lambda z: z, torch.ones_like, "odd", 1)
    assert not identity.assumption_2()["non_linear"]
    square = Activation("square", torch.square, lambda z: 2 * z, "even", 2)
    assert not square.assumption_2()["lipschitz"]


def test_an_activation_built_to_the_letter_meets_assumption_2() -> None:
    # sin a z + cos b z, freed of the orders 0 and 2 by adding cos c z and a constant
    def mean(frequency: float) -> float:
        return math.exp(-(frequency**2) / 2)

    weight = -mean(1.0) / (4 * mean(2.0))  # mu_2 of cos(b z) is -b^2 e^(-b^2/2) / sqrt(2)
    constant = mean(1.0) + weight * mean(2.0)
    built = Activation(
        name="built",
        value=lambda z: torch.sin(z) + torch.cos(z) + weight * torch.cos(2 * z) - constant,
        slope=lambda z: torch.cos(z) - torch.sin(z) - 2 * weight * torch.sin(2 * z),
        parity="none",
    )
    assert built.meets_assumption_2


def test_homogeneous_activations_hide_the_norm() -> None:
    assert {name for name in BUILT_IN if not activations.get(name).identifies_norm} == {"relu", "abs"}


def test_unknown_names_list_the_valid_ones() -> None:
    with pytest.raises(InputError, match="relu\\+tanh"):
        activations.get("relux")


@pytest.mark.usefixtures("clean_registry")
def test_a_registered_activation_is_found_by_name_and_has_a_kernel() -> None:
    activation = activations.register(leaky())
    assert activations.get("leaky") is activations.get(activation) is activation
    assert set(activations.names()) == {*BUILT_IN, "leaky"}
    cosines = torch.linspace(-1, 1, 9, dtype=torch.float64)
    # the slope is 1/4 + 3/4 step, and E[step(z)] = 1/2
    step_kernel = activations.get("relu").slope_kernel(cosines)
    expected = 1 / 16 + 2 * 3 / 16 / 2 + 9 / 16 * step_kernel
    torch.testing.assert_close(activations.get("leaky").slope_kernel(cosines), expected, rtol=0, atol=1e-10)


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "relu"}, "built in"),
        ({"name": ""}, "empty"),
        ({"slope": lambda z: torch.where(z > 0, 1.0, 0.3).to(z.dtype)}, "finite difference"),
        ({"slope": lambda z: z.double()}, "to torch.float64"),
        ({"parity": "odd"}, "parity"),
        ({"homogeneity": None}, "homogeneity None; its values show 1"),
        ({"homogeneity": 2}, "homogeneity 2; its values show 1"),
        ({"value": torch.abs, "slope": torch.sign}, "parity 'none'; its values show 'even'"),
        ({"kernel": torch.ones_like}, "differs from its quadrature"),
    ],
)
def test_registration_refuses_what_is_not_true(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        activations.register(leaky(**changes))  # type: ignore[arg-type]
    assert set(activations.names()) == set(BUILT_IN)


@ALL
def test_built_ins_would_pass_registration_themselves(name: str) -> None:
    activation = replace(activations.get(name), name="again")
    activations._check_slope(activation)
    activations._check_symmetries(activation)


@ALL
def test_built_ins_survive_pickling_and_copying(name: str) -> None:
    activation = activations.get(name)
    assert pickle.loads(pickle.dumps(activation)) is activation
    assert copy.deepcopy(activation) is activation
