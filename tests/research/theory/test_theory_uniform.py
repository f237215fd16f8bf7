"""Checks of Lemma B.1: suprema against exact ones, exponents as predicted, and not with a wrong linear part."""

import math

import pytest
import torch

from exhume import activations
from exhume.activations import Activation
from exhume.research.theory import uniform
from exhume.research.theory.setting import WAVES, entries, feature_map, sphere_samples


@pytest.fixture
def matrix():
    return entries(feature_map(600, 10, "relu", 0, "test"))


def test_the_supremum_of_a_linear_sum_is_found(matrix):
    weights = torch.randn(600, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    exact = math.sqrt(10) * float((matrix.T @ weights).norm())
    found = uniform.supremum(lambda z: (weights * z, weights.expand_as(z)), matrix, sphere_samples(3, 10, 0, "starts"))
    assert found == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_supremum_of_a_quadratic_sum_is_an_eigenvalue(matrix, sign):
    values = torch.linalg.eigvalsh(matrix.T @ matrix) * 10 - 600
    starts = sphere_samples(3, 10, 0, "starts")
    found = uniform.supremum(lambda z: (sign * (z * z - 1), 2 * sign * z), matrix, starts)
    assert found == pytest.approx(float(values.abs().max()), rel=1e-5)


@pytest.mark.parametrize("equation", ["20", "22"])
def test_no_sample_deviates_more_than_the_supremum(matrix, equation):
    mu_1 = float(WAVES.hermite(1)[1])
    given = matrix @ sphere_samples(1, 10, 0, "given").T
    summands = uniform._of_itself(WAVES, mu_1, 0.3) if equation == "20" else uniform._of_given(WAVES, mu_1, given)
    found = uniform.supremum(summands, matrix, uniform._starts(matrix, 0, "test"))
    tried = summands(matrix @ sphere_samples(2000, 10, 0, "tried").T)[0].sum(0).abs()
    assert float(tried.max()) < found
    z = torch.linspace(-3, 3, 600, dtype=torch.float64)[:, None]  # and its derivative is one
    difference = (summands(z + 1e-6)[0] - summands(z - 1e-6)[0]) / 2e-6
    torch.testing.assert_close(summands(z)[1], difference, rtol=0, atol=1e-7)


def test_the_exact_supremum_of_eq_21_is_that_of_its_sum():
    found = uniform.measure("21", WAVES, 700, 8, seed=0)
    squares = []
    mu_1 = float(WAVES.hermite(1)[1])
    for draw in range(8):
        matrix = entries(feature_map(700, 8, WAVES, 0, f"uniform 700 8 {draw}"))
        given = matrix @ sphere_samples(32, 8, 0, f"uniform 700 8 {draw}").T
        rest = WAVES.value(given) - mu_1 * given
        best = matrix.T @ rest  # the gradient of a linear function points to its largest value
        best = math.sqrt(8) * best / best.norm(dim=0)
        linear = mu_1 * (matrix @ best)  # phi(x) - phi~(x)
        squares.append((rest * linear).sum(0).square().mean())
    assert found == pytest.approx(math.sqrt(float(torch.stack(squares).mean())))


@pytest.mark.parametrize("equation", ["18", "21"])
def test_deviations_grow_as_predicted(equation):
    assert uniform.deviation_in_width(equation, "waves", seed=1).passed
    in_dim = uniform.deviation_in_dim(equation, "waves", seed=1)
    assert in_dim.passed
    assert in_dim.predicted == (0.0 if equation == "18" else 0.5)


def test_a_searched_supremum_grows_with_both_sizes():
    relu = activations.get("relu")
    small, wide, large = (uniform.measure("20", relu, p, d, seed=1) for p, d in ((500, 6), (4000, 6), (4000, 48)))
    assert math.log(wide / small) / math.log(8) == pytest.approx(0.5, abs=0.15)
    assert math.log(large / wide) / math.log(8) == pytest.approx(0.5, abs=0.15)


def test_a_wrong_linear_part_makes_deviations_grow_as_the_width():
    class Wrong(Activation):
        def hermite(self, order):
            return 1.3 * super().hermite(order)

    tanh = activations.get("tanh")
    wrong = Wrong(**{name: getattr(tanh, name) for name in tanh.__dataclass_fields__})
    check = uniform.deviation_in_width("21", wrong)
    assert not check.passed
    assert check.fitted > 0.8
