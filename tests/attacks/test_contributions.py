"""Contributions of rows compared with fits without the row, and the decision whether a residual is a noise floor."""

import math

import pytest
import torch

from exhume.attacks._base.problem import EquationCount
from exhume.attacks._base.search_tuning import NoiseFloorTuning
from exhume.attacks._search.noise_floor import is_noise_floor
from exhume.attacks._search.rows import drop_rows
from exhume.equation.nuisance import Nuisance
from exhume.equation.span import Span
from exhume.features import GaussianMatrix, RandomFeatureMap

DIM, WIDTH, SAMPLES = 5, 80, 6
SETTINGS = {
    "one output": {},
    "three outputs": {"outputs": 3},
    "linear part projected out": {"nuisance": Nuisance(linear=True)},
    "linear part solved jointly": {"nuisance": Nuisance(linear=True, joint=True), "outputs": 2},
    "known samples": {"known": 2},
}


def normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(params=sorted(SETTINGS))
def case(request):
    """A span equation whose displacement no samples explain exactly, and a candidate."""
    setting = {"outputs": 1, "nuisance": None, "known": 0} | SETTINGS[request.param]
    features = RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=1), "relu", torch.float64)
    fixed = features.forward(normal(setting["known"], DIM, seed=2)) if setting["known"] else None
    span = Span(features, normal(setting["outputs"], WIDTH, seed=3), setting["nuisance"], fixed=fixed)
    return span, normal(SAMPLES + span.num_linear, DIM, seed=4)


def without(rows, place):
    return torch.cat([rows[:place], rows[place + 1 :]])


def test_a_contribution_is_what_a_fit_without_the_row_adds_to_the_loss(case):
    span, rows = case
    point = span.at(rows)
    losses = [span.at(without(rows, place)).loss for place in range(SAMPLES)]
    added = torch.tensor(losses, dtype=torch.float64) - point.loss
    torch.testing.assert_close(span.contributions(point), added, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("count", [6, 5, 3, 1])
def test_rows_are_dropped_as_by_fits_without_each_of_them(case, count):
    span, rows = case
    left = rows
    for size in range(SAMPLES, count, -1):
        losses = [span.at(without(left, place)).loss for place in range(size)]
        left = without(left, losses.index(min(losses)))
    assert torch.equal(drop_rows(span.at(rows), count), left)


def noisy_fit(noise, idle=0, coefficients=(1.0, -1.5, 0.8, -1.2)):
    """The true samples of a displacement with noise, and additional idle rows."""
    features = RandomFeatureMap(GaussianMatrix(400, DIM, seed=1), "relu", torch.float64)
    true = normal(len(coefficients), DIM, seed=2)
    theta = torch.tensor([coefficients], dtype=torch.float64) @ features.forward(true)
    wobble = normal(1, 400, seed=3)
    span = Span(features, theta + noise * theta.norm() * wobble / wobble.norm())
    return span, span.at(torch.cat([true, normal(idle, DIM, seed=4)]))


def test_samples_contribute_more_than_noise():
    span, point = noisy_fit(0.03)
    assert math.sqrt(point.loss) > 0.02
    assert is_noise_floor(span, point, EquationCount(span.num_equations, 24), NoiseFloorTuning())


def test_an_idle_row_does_not_contribute_more_than_noise():
    span, point = noisy_fit(0.03, idle=1)
    assert not is_noise_floor(span, point, EquationCount(span.num_equations, 30), NoiseFloorTuning())


def test_a_sample_below_the_noise_does_not_contribute_more_than_it():
    span, point = noisy_fit(0.1, coefficients=(1.0, -1.5, 0.8, -0.02))
    assert not is_noise_floor(span, point, EquationCount(span.num_equations, 24), NoiseFloorTuning())


def test_with_too_few_equations_to_spare_nothing_is_noise_floor():
    span, point = noisy_fit(0.03)
    assert not is_noise_floor(span, point, EquationCount(span.num_equations, 399), NoiseFloorTuning())
    assert not is_noise_floor(span, point, EquationCount(span.num_equations, 500), NoiseFloorTuning())


def test_a_large_residual_is_no_floor():
    span, point = noisy_fit(0.35, coefficients=(1.0,))
    assert float(span.contributions(point).min()) > 5 * point.loss  # clear of what is left, which is not little
    assert not is_noise_floor(span, point, EquationCount(span.num_equations, 6), NoiseFloorTuning())
