"""The search's first phase: steps with momentum on subsets, which cost two passes and replace rows that do nothing."""

import statistics

import pytest
import torch

import exhume
from exhume import data
from exhume.attacks import search as search_module
from exhume.attacks.momentum import COLLAPSED, Momentum
from exhume.attacks.search_state import REMEMBERED, SearchState
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.features.counted import CountedFeatures
from exhume.nuisance import Nuisance
from exhume.solvers import Inner, gauss_newton_step, momentum_step, onto_sphere
from exhume.span import Span

DIM, SAMPLES, WIDTH = 20, 6, 1200
RADIUS = DIM**0.5
LINEAR = Nuisance(linear=True)


def problem(nuisance=LINEAR):
    """The span equation of abs features, its true rows, and a generator."""
    generator = torch.Generator().manual_seed(0)
    features = RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=0), "abs")
    true = onto_sphere(torch.randn(SAMPLES, DIM, generator=generator), RADIUS)
    # Every sample counts: none has a coefficient near 0.
    coefficients = 1 + torch.rand(1, SAMPLES, generator=generator)
    theta = coefficients @ features.forward(true)
    if nuisance.linear:
        theta = theta + features.preactivate(torch.randn(1, DIM, generator=generator))
    counted = CountedFeatures.open(features, SAMPLES)
    return Span(counted, theta, nuisance), true, generator


def phase(span, rows, generator, most_steps=900):
    momentum = Momentum(span, RADIUS, True, most_steps)
    state = SearchState(rows, generator)
    momentum.begin(state)
    return momentum, state


def take_steps(momentum, state, count, size=400):
    for _ in range(count):
        momentum.step(state, torch.randperm(WIDTH, generator=state.generator)[:size])
        state.recent.append(state.residual)
        state.step += 1


def near(true, generator, size=0.1):
    return onto_sphere(true + size * torch.randn(true.shape, generator=generator), RADIUS)


def test_a_step_from_rest_goes_the_way_of_a_preconditioned_gradient():
    """One conjugate-gradient step from zero is along the preconditioned gradient too."""
    span, true, generator = problem(Nuisance())
    point = span.at(near(true, generator))
    step = momentum_step(span, point, torch.zeros_like(point.rows), 0.015, RADIUS)
    one, _ = gauss_newton_step(span, point, 0.015, Inner(1, 1e-9), RADIUS)
    assert float(torch.nn.functional.cosine_similarity(step.flatten(), one.flatten(), dim=0)) == pytest.approx(1)
    assert float((step * point.rows).sum(1).abs().max()) < 1e-4 * RADIUS  # along the sphere


def test_a_share_of_the_last_step_is_kept():
    span, true, generator = problem(Nuisance())
    point = span.at(near(true, generator))
    rest = torch.zeros_like(point.rows)
    first = momentum_step(span, point, rest, 0.015, RADIUS)
    second = momentum_step(span, point, first, 0.015, RADIUS)
    share = (second - first).norm() / first.norm()
    assert 0 < float(share) < 1
    torch.testing.assert_close(second - first, share * first, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("nuisance", [Nuisance(), LINEAR])
def test_near_the_samples_the_residual_collapses(nuisance):
    span, true, generator = problem(nuisance)
    momentum, state = phase(span, near(true, generator), generator)
    take_steps(momentum, state, 300)
    assert statistics.median(state.recent[-5:]) < COLLAPSED < state.recent[0]
    assert momentum.is_over(state)
    found = torch.nn.functional.cosine_similarity(state.rows, true).abs()
    assert float(found.min()) > 1 - 1e-6


def test_a_step_costs_two_passes_over_its_subset():
    span, true, generator = problem(Nuisance())
    momentum, state = phase(span, near(true, generator), generator)
    before = span.features.ledger.passes
    take_steps(momentum, state, 10, size=WIDTH // 4)
    assert span.features.ledger.passes - before == pytest.approx(10 * 2 / 4, rel=0.01)


def test_a_row_that_stands_for_no_sample_is_replaced_by_one_that_does():
    """Two rows at one sample and none at another: the spare one moves to where the residual points."""
    span, true, generator = problem()
    rows = near(true, generator, 0.01)
    rows[1] = near(true[:1], generator, 0.01)
    momentum, state = phase(span, rows, generator)
    state.recent = [0.5] * REMEMBERED  # at rest
    assert not momentum.is_over(state)
    assert (state.replacements, state.recent) == (1, [])
    moved = (state.rows != rows).any(dim=1).nonzero().flatten().tolist()
    assert moved in ([0], [1])
    found = torch.nn.functional.cosine_similarity(state.rows[moved], true[1:2]).abs()
    assert float(found) > 0.8


def test_rows_are_not_replaced_for_ever():
    span, true, generator = problem()
    momentum, state = phase(span, near(true, generator, 3.0), generator)
    over, asked = False, 0
    while not over:
        state.recent = [0.5] * REMEMBERED
        over, asked = momentum.is_over(state), asked + 1
    assert asked <= 5
    assert state.replacements <= 4


def test_the_phase_ends_when_its_steps_are_spent():
    span, true, generator = problem()
    momentum, state = phase(span, near(true, generator), generator, most_steps=20)
    take_steps(momentum, state, 20)
    assert momentum.is_over(state)
    momentum.end(state)
    assert state.velocity is None
    assert state.linear is None
    assert state.rows.shape == (SAMPLES, DIM)


def test_the_phase_spares_passes(monkeypatch):
    """The same problem without it: Gauss-Newton steps from the beginning."""
    training = data.load("sphere", dim=30, samples=20, seed=0)
    target = exhume.RandomFeatures(num_features=1800).fit(training.inputs, training.labels).target()
    result = exhume.reconstruct(target, num_samples=20)
    monkeypatch.setattr(search_module.Momentum, "is_over", lambda self, state: True)
    without = exhume.reconstruct(target, num_samples=20)
    assert result.certificate.verdict == without.certificate.verdict == "exact"
    assert result.passes < 0.8 * without.passes
