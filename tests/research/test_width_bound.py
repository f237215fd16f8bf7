"""The sufficient width: each step of its proof against brute force, and what it must do as a whole."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from exhume import activations, law
from exhume.activations import Activation
from exhume.errors import InputError
from exhume.research.separating_function import Numbers, best_separating_function
from exhume.research.width_bound import WidthBound, log_net_size, sufficient_width

SINE = Activation("sine", torch.sin, torch.cos, "odd")
COSINE = Activation("cosine", torch.cos, lambda z: -torch.sin(z), "even")
# Rounding and the choice among degrees may cost this much.
SLACK = 1.03

SETTINGS = st.fixed_dictionaries(
    {
        "input_dim": st.integers(1, 60),
        "num_samples": st.integers(1, 6),
        "error": st.floats(0.5, 1.3),
        "margin": st.floats(0.5, 1.41),
        "smallest_coefficient": st.floats(0.3, 1.0),
        "activation": st.sampled_from(["tanh", "erf"]),
        "failure_probability": st.floats(1e-6, 0.5),
    }
)


def directions(count: int, dim: int, generator: np.random.Generator) -> Numbers:
    gaussian = generator.standard_normal((count, dim))
    return gaussian / np.linalg.norm(gaussian, axis=1, keepdims=True)


def normal_density(z: float) -> float:
    return math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)


def value(activation: str | Activation, points: Numbers) -> Numbers:
    return activations.get(activation).value(torch.from_numpy(points)).numpy()


def bernstein(width: int, logs: float, variance: float, summand: float) -> float:
    """The deviation t with p t^2 / (2 (variance + summand t / 3)) = logs."""
    linear = summand * logs / (3.0 * width)
    return linear + math.sqrt(linear**2 + 2.0 * variance * logs / width)


@pytest.mark.parametrize("activation", ["tanh", "erf", "sigmoid", SINE, COSINE])
@pytest.mark.parametrize(("cosine", "mass"), [(0.9, 3.0), (0.5, 1.0), (0.7, 40.0), (0.0, 5.0)])
def test_the_function_sees_the_sample_and_little_else(activation: str | Activation, cosine: float, mass: float) -> None:
    act = activations.get(activation)
    found = best_separating_function(act, 31, cosine, mass)
    assert np.linalg.norm(found.weights) == pytest.approx(1.0)
    polynomial = np.polynomial.Polynomial(found.weights * act.hermite(31).numpy())  # f
    other = np.abs(polynomial(np.linspace(-cosine, cosine, 20_001))).max()
    assert 0.0 < found.gap <= polynomial(1.0) - mass * other
    assert found.gap >= 0.98 * (polynomial(1.0) - mass * other)


def test_the_test_function_correlates_with_features_as_its_polynomial_says() -> None:
    act = activations.get("tanh")
    found = best_separating_function(act, 15, 0.8, 3.0)
    z, weights = np.polynomial.hermite_e.hermegauss(120)
    masses = np.outer(weights, weights) / (2.0 * math.pi)
    for cosine in (-0.7, 0.0, 0.4, 0.95):
        other = cosine * z[:, None] + math.sqrt(1.0 - cosine**2) * z[None, :]
        correlation = (found.values(z)[:, None] * np.tanh(other) * masses).sum()
        expected = np.polynomial.Polynomial(found.weights * act.hermite(15).numpy())(cosine)
        assert correlation == pytest.approx(expected, abs=1e-6)
    assert (found.values(z) ** 2 @ weights) / math.sqrt(2.0 * math.pi) == pytest.approx(1.0)


@pytest.mark.parametrize("limit", [0.5, 2.0, 6.0])
def test_clipping_costs_no_more_than_said(limit: float) -> None:
    found = best_separating_function(activations.get("tanh"), 15, 0.8, 3.0)

    def over(z: float) -> float:
        return max(0.0, abs(float(found.values(np.array([z]))[0])) - limit) * normal_density(z)

    exact = sum(quad(over, left, left + 0.5)[0] for left in np.arange(-9.0, 9.0, 0.5))
    (claimed,) = found.excess(np.array([limit]))
    assert exact <= claimed <= 1.06 * exact + 1e-16


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["tanh", "erf", "sigmoid"]), st.integers(1, 4), st.floats(0.4, 1.2))
def test_no_candidate_that_misses_a_sample_has_a_smaller_population_loss(
    seed: int, activation: str, num_samples: int, error: float
) -> None:
    """Candidates at or beyond the error, drawn and fitted to do well, against the exact kernel."""
    generator, dim = np.random.default_rng(seed), 3
    samples = directions(num_samples, dim, generator)
    cosines = np.abs(samples[1:] @ samples[0])
    margin = math.sqrt(2.0 - 2.0 * max(cosines, default=0.0))
    if margin < 0.3:
        return
    least = 0.5
    kappa = sufficient_width(dim, num_samples, error, margin, least, 1.0, activation).separation
    # As near to the missed sample as is allowed, on all sides of it, or anywhere else.
    near = directions(num_samples, dim, generator)
    near -= np.outer(near @ samples[0], samples[0])
    rho = 1.0 - error**2 / 2.0
    near = rho * samples[0] + math.sqrt(1.0 - rho**2) * near / np.linalg.norm(near, axis=1, keepdims=True)
    anywhere = directions(num_samples, dim, generator)
    allowed = (np.abs(anywhere @ samples[0]) <= rho) & (generator.random(num_samples) < 0.3)
    points = np.vstack((samples, np.where(allowed[:, None], anywhere, near)))
    squares = activations.get(activation).hermite(127).numpy() ** 2
    kernel = np.polynomial.Polynomial(squares)(np.clip(points @ points.T, -1.0, 1.0))  # (2n, 2n), from below
    own = np.concatenate(([least], generator.uniform(least, 1.0, num_samples - 1)))
    fitted = np.linalg.lstsq(kernel[num_samples:, num_samples:], kernel[num_samples:, :num_samples] @ own)[0]
    for candidate in (np.clip(fitted, -1.0, 1.0), generator.uniform(-1.0, 1.0, num_samples)):
        coefficients = np.concatenate((own, -candidate))
        assert coefficients @ kernel @ coefficients >= kappa


def test_means_of_clipped_test_function_times_feature_deviate_as_rarely_as_bernstein_says() -> None:
    generator = np.random.default_rng(0)
    found = best_separating_function(activations.get("tanh"), 15, 0.8, 3.0)
    width, clip, trials, cosine = 60, 4.0, 20_000, 0.3
    z, other = generator.standard_normal((2, trials, width))
    clipped = np.clip(found.values(z), -clip, clip)
    means = (clipped * np.tanh(cosine * z + math.sqrt(1.0 - cosine**2) * other)).mean(axis=1)
    assert (clipped**2).mean() <= 1.0
    for logs in (1.5, 3.0, 5.0):
        deviation = bernstein(width, logs, 1.0, clip)
        assert (np.abs(means - means.mean()) > deviation).mean() <= 2.0 * math.exp(-logs)


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
@pytest.mark.parametrize("radius", [0.3, 0.7, 1.0])
def test_points_apart_on_a_sphere_are_no_more_than_the_size_of_the_net(dim: int, radius: float) -> None:
    chosen = np.empty((0, dim))
    for point in directions(4000, dim, np.random.default_rng(1)):
        if (np.linalg.norm(chosen - point, axis=1) > radius).all():
            chosen = np.vstack((chosen, point))
    assert math.log(len(chosen)) <= log_net_size(np.array([radius]), dim)[0] + 1e-12


def test_rows_in_the_subspace_are_stretched_by_two_at_most() -> None:
    generator, dim, delta = np.random.default_rng(2), 6, 0.2
    width = math.ceil((math.sqrt(dim) + math.sqrt(2.0 * math.log(4.0 / delta))) ** 2)
    largest = [np.linalg.norm(generator.standard_normal((width, dim)), 2) for _ in range(400)]
    assert np.mean(np.array(largest) > 2.0 * math.sqrt(width)) <= delta / 4.0


@given(SETTINGS)
@settings(max_examples=10, deadline=None)
def test_the_parts_of_the_bound_add_up_to_the_proof(sizes: dict[str, Any]) -> None:
    bound = sufficient_width(**sizes)
    n, r, delta = bound.num_samples, bound.input_dim, bound.failure_probability
    slope = 1.0 if bound.activation == "tanh" else 2.0 / math.sqrt(math.pi)
    mass = (2 * n - 1) / bound.smallest_coefficient
    found = best_separating_function(activations.get(bound.activation), bound.hermite_order, bound.cosine, mass)
    clip = bound.summand_bound
    net_logs = math.log(8.0 * n / delta) + bound.log_net_size
    deviation = bernstein(bound.width, net_logs, 1.0, clip)
    pairs = bernstein(bound.width, math.log(8.0 * n * n / delta), 1.0, clip)
    assert deviation <= bound.deviation
    spent = math.sqrt(2.0) * bound.residual + 2.0 * n * float(found.excess(np.array([clip]))[0])
    spent += n * (deviation + pairs + 2.0 * math.sqrt(2.0) * slope * bound.net_radius)
    assert spent <= math.sqrt(bound.separation) * (1.0 + 1e-9)
    # mean q^2 <= 2 for every sample, by Chernoff's inequality for numbers in [0, clip^2] with mean 1 at most
    assert n * math.exp(-bound.width * (2.0 * math.log(2.0) - 1.0) / clip**2) <= delta / 4.0 * (1.0 + 1e-9)
    assert bound.width >= (math.sqrt(r) + math.sqrt(2.0 * math.log(4.0 / delta))) ** 2


@pytest.mark.parametrize("seed", range(3))
def test_at_the_width_no_wrong_candidate_explains_the_weights(seed: int) -> None:
    """Two samples in the plane, every pair of candidates on a grid, coefficients fitted without any bound."""
    bound = sufficient_width(2, 2, error=1.1, margin=1.3)
    generator = np.random.default_rng(seed)
    angles = np.array([0.3, 0.3 + 0.48 * math.pi])
    grid = np.arange(0.0, math.pi, math.pi / 60.0)  # tanh is odd: half of the circle is all of it
    rows = generator.standard_normal((bound.width, 2))
    features = np.tanh(rows @ np.array([np.cos([*angles, *grid]), np.sin([*angles, *grid])]))
    gram = features.T @ features / bound.width
    theta = np.array([1.0, -1.0])
    least = math.inf
    for pair in itertools.combinations(range(grid.size), 2):
        away = np.abs(np.cos(angles[:, None] - grid[list(pair)])) <= bound.cosine
        if not away.all(axis=1).any():
            continue
        at = np.array(pair) + 2
        seen = gram[np.ix_(at, [0, 1])] @ theta
        loss = theta @ gram[:2, :2] @ theta - seen @ np.linalg.solve(gram[np.ix_(at, at)], seen)
        least = min(least, math.sqrt(max(loss, 0.0)))
    assert bound.residual < least < math.inf


@given(SETTINGS, st.floats(1.05, 2.0))
@settings(max_examples=8, deadline=None)
def test_harder_problems_ask_no_smaller_width(sizes: dict[str, Any], factor: float) -> None:
    here = sufficient_width(**sizes).width
    harder = {
        "input_dim": sizes["input_dim"] + 1,
        "num_samples": sizes["num_samples"] + 1,
        "error": sizes["error"] / factor,
        "margin": sizes["margin"] / factor,
        "smallest_coefficient": sizes["smallest_coefficient"] / factor,
        "failure_probability": sizes["failure_probability"] / factor,
    }
    for name, changed in harder.items():
        assert sufficient_width(**{**sizes, name: changed}).width * SLACK >= here, name


@given(SETTINGS)
@settings(max_examples=10, deadline=None)
def test_the_bound_lies_above_the_information_limit_and_hoeffding_above_bernstein(sizes: dict[str, Any]) -> None:
    bound = sufficient_width(**sizes)
    limit = law.forecast(1, sizes["input_dim"], sizes["num_samples"], activation=sizes["activation"])
    assert limit.smallest_parameters < bound.width <= bound.hoeffding_width * SLACK


def test_a_known_subspace_takes_the_place_of_the_input_dimension() -> None:
    inside, outside = (
        sufficient_width(1000, 3, 0.7, 0.9, subspace_dim=8),
        sufficient_width(8, 3, 0.7, 0.9),
    )
    assert inside.width == outside.width
    assert inside.log_net_size == outside.log_net_size
    assert inside.width < sufficient_width(1000, 3, 0.7, 0.9).width / 20
    assert "8 dimensions" in inside.sentence


def test_only_the_ratio_of_coefficients_matters() -> None:
    small, large = (sufficient_width(8, 2, 0.7, 0.9, 0.5 * scale, scale) for scale in (1.0, 1e-6))
    assert small.width == large.width
    assert large.residual == pytest.approx(1e-6 * small.residual)
    assert large.separation == pytest.approx(1e-12 * small.separation)


def test_the_margin_does_not_matter_to_a_single_sample() -> None:
    assert sufficient_width(8, 1, 0.7, 0.01).width == sufficient_width(8, 1, 0.7, 1.4).width


def test_activations_of_ones_own_bring_their_bounds() -> None:
    for activation in (SINE, COSINE):
        bound = sufficient_width(4, 2, 0.8, 0.8, activation=activation, bounds=(1.0, 1.0))
        assert bound.activation == activation.name
        assert bound.width > 1000
        looser = sufficient_width(4, 2, 0.8, 0.8, activation=activation, bounds=(2.0, 2.0))
        assert looser.width > 3 * bound.width
    with pytest.raises(InputError, match="'sine' reaches 1; valid: at least that"):
        sufficient_width(4, 2, 0.8, 0.8, activation=SINE, bounds=(0.9, 1.0))
    with pytest.raises(InputError, match="no bounds are known of the activation 'tanh'"):
        sufficient_width(4, 2, 0.8, 0.8, activation=Activation("tanh", torch.sin, torch.cos, "odd"))


def test_json_holds_plain_values_and_the_sentence() -> None:
    found = law.sufficient_width(np.int64(8), 2, np.float32(0.75), 0.8)  # type: ignore[arg-type]
    plain: dict[str, Any] = json.loads(json.dumps(found.to_json()))
    assert plain.pop("sentence") == found.sentence
    assert WidthBound(**plain) == found
    assert f"{found.width:,} features" in found.sentence
    assert "probability 0.99" in found.sentence


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_dim": 0}, "input_dim is 0; valid: a whole number of at least 1"),
        ({"num_samples": 2.5}, "num_samples is 2.5"),
        ({"num_samples": True}, "num_samples is True"),
        ({"subspace_dim": 31}, "at most input_dim, which is 30"),
        ({"error": 0.0}, "error is 0.0; valid: a number above 0 and below 1.41421"),
        ({"error": 1.5}, "error is 1.5"),
        ({"error": math.nan}, "error is nan"),
        ({"margin": "wide"}, "margin is 'wide'"),
        ({"margin": 1.6}, "margin is 1.6"),
        ({"smallest_coefficient": 2.0}, "smallest_coefficient is 2.0; valid: a number above 0 and below 1"),
        ({"largest_coefficient": math.inf}, "largest_coefficient is inf"),
        ({"largest_coefficient": None}, "largest_coefficient is None"),
        ({"failure_probability": 1.0}, "failure_probability is 1.0"),
        ({"activation": "relux"}, "unknown activation"),
        ({"activation": "relu"}, "no bounds are known of the activation 'relu'; valid: erf, sigmoid, tanh"),
        ({"activation": "relu", "bounds": (1.0, 1.0)}, "'relu' reaches 50"),
        ({"bounds": (-1.0, 1.0)}, "bounds is -1.0; valid"),
        ({"error": 0.02}, "error is 0.02 and margin 0.9.*lost in rounding; valid: a larger error and margin"),
    ],
)
def test_errors_name_the_value_and_what_is_valid(changes: dict[str, Any], message: str) -> None:
    sizes: dict[str, Any] = {"input_dim": 30, "num_samples": 4, "error": 0.7, "margin": 0.9, **changes}
    with pytest.raises(InputError, match=message):
        sufficient_width(**sizes)
