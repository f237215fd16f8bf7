"""Rounds of the search: rows are added from the residual's spectrum and dropped again, and the loss never rises."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from exhume.attacks._base.search_tuning import SpectralTuning
from exhume.attacks._base.tuning import DEFAULT_TUNING
from exhume.attacks._search.rows import exchange_rows, residual_rows, turn_rows
from exhume.equation.nuisance import Nuisance
from exhume.equation.span import Span
from exhume.features import GaussianMatrix, ModuleFeatureMap, RandomFeatureMap
from exhume.solvers import FixedNorm, FreeNorm
from exhume.target.target import Target

DIM, SAMPLES, WIDTH = 12, 4, 900
SPHERE = FixedNorm(DIM**0.5)
FOUND = DEFAULT_TUNING.found


def exchanged(span, start, norms, generator):
    """What rounds of the search by subsets reach."""
    rounds, add = DEFAULT_TUNING.subsets.rounds, partial(residual_rows, span, SpectralTuning(), generator)
    return exchange_rows(span, start, norms, rounds, add, is_done=lambda point: math.sqrt(point.loss) < FOUND)


def equation_with(nuisance, noise=0.0):
    """An equation and its true samples; the last has a coefficient a tenth of the others'."""
    generator = torch.Generator().manual_seed(0)
    features = RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=1), "abs")
    true = FixedNorm(DIM**0.5).retract(torch.randn((SAMPLES, DIM), generator=generator))
    theta = torch.tensor([[1.0, -1.2, 0.8, 0.1]]) @ features.forward(true)
    wobble = torch.randn(theta.shape, generator=generator)
    span = Span(features, theta + noise * theta.norm() * wobble / wobble.norm(), nuisance, ridge=1e-6)
    return span, true


def with_linear(span, samples):
    return torch.cat([samples, span.first_linear()]) if span.num_linear else samples


NUISANCES = [Nuisance(), Nuisance(linear=True), Nuisance(linear=True, joint=True)]


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("nuisance", NUISANCES)
def test_the_loss_never_rises_and_the_number_of_rows_stays(nuisance, noise, free):
    span, _ = equation_with(nuisance, noise)
    generator = torch.Generator().manual_seed(2)
    for _ in range(4):
        start = span.at(
            with_linear(span, FixedNorm(DIM**0.5).retract(torch.randn((SAMPLES, DIM), generator=generator)))
        )
        point = exchanged(span, start, FreeNorm(DIM**0.5) if free else SPHERE, generator)
        assert point.loss <= start.loss
        assert point.rows.shape == start.rows.shape
        if not free:
            torch.testing.assert_close(point.samples.norm(dim=1), torch.full((SAMPLES,), DIM**0.5))


@pytest.mark.parametrize("nuisance", NUISANCES)
def test_a_sample_with_a_small_coefficient_comes_up(nuisance):
    """Three samples are found, and a random row stands where the fourth should."""
    span, true = equation_with(nuisance)
    generator = torch.Generator().manual_seed(3)
    stray = FixedNorm(DIM**0.5).retract(torch.randn((1, DIM), generator=generator))
    start = span.at(with_linear(span, torch.cat([true[:3], stray])))
    point = exchanged(span, start, SPHERE, generator)
    assert math.sqrt(point.loss) < FOUND
    cosines = torch.nn.functional.cosine_similarity(point.samples, true[3:]).abs()
    assert float(cosines.max()) > 1 - 1e-4


def test_rounds_that_are_done_leave_the_rows_as_they_are():
    span, true = equation_with(Nuisance())
    start = span.at(true.roll(1, 1))
    assert (
        exchange_rows(span, start, SPHERE, DEFAULT_TUNING.subsets.rounds, pytest.fail, is_done=lambda point: True)
        is start
    )


def test_features_of_any_kind_are_given_random_rows():
    """A network's features have no second moments to take rows from; the fourth sample comes up all the same."""
    inputs = SPHERE.retract(torch.randn((SAMPLES, DIM), generator=torch.Generator().manual_seed(0)))
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(DIM, 300), nn.GELU(), nn.Linear(300, 300), nn.GELU(), nn.Linear(300, 2))
    features = Target.last_layer(network.eval(), initial_head="zero", input_shape=(DIM,)).features
    theta = torch.tensor([[1.0, -1.2, 0.8, 0.5], [0.3, 0.7, -0.9, 0.6]]) @ features.forward(inputs)
    span, generator = Span(features, theta, ridge=1e-6), torch.Generator().manual_seed(3)
    start = span.at(torch.cat([inputs[:3], SPHERE.retract(torch.randn((1, DIM), generator=generator))]))
    point = exchanged(span, start, SPHERE, generator)
    assert point.loss < 0.1 * start.loss


def test_a_row_at_the_negative_of_a_sample_is_turned_where_features_are_nearly_odd():
    torch.manual_seed(0)
    body = nn.Linear(DIM, 300)
    nn.init.normal_(body.bias, std=0.1)
    features = ModuleFeatureMap(nn.Sequential(body, nn.Tanh(), nn.Linear(300, 1)).eval().double(), None, (DIM,))
    true = SPHERE.retract(torch.randn((SAMPLES, DIM), dtype=torch.float64))
    span = Span(features, torch.tensor([[1.0, -1.2, 0.8, 0.5]]).double() @ features.forward(true), ridge=1e-9)
    wrong = true.clone()
    wrong[0] *= -1
    rounds = DEFAULT_TUNING.direct.rounds
    start = span.at(wrong)
    turned = turn_rows(span, start, SPHERE, rounds)
    assert 1e-4 < math.sqrt(start.loss) < 0.3  # a residual that a search might take for noise
    assert turned.loss < 1e-3 * start.loss
    torch.testing.assert_close(turned.samples, true, rtol=0, atol=1e-2)
    relu = Span(RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=1), "relu"), torch.ones(1, WIDTH))
    point = relu.at(true.float())
    assert turn_rows(relu, point, SPHERE, rounds).loss <= point.loss
