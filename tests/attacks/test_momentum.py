"""The search's first phase: steps with momentum on subsets, which cost two passes and replace rows that do nothing."""

import math
import statistics
from dataclasses import replace

import pytest
import torch

import exhume
from exhume import data
from exhume.attacks._base.search_tuning import MomentumTuning, SpectralTuning
from exhume.attacks._base.tuning import DEFAULT_TUNING
from exhume.attacks._search.on_subsets.momentum_phase import MomentumPhase
from exhume.equation.nuisance import Nuisance
from exhume.equation.span import Span
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.solvers import CGOptions, FixedNorm, gauss_newton_step, momentum_step

DIM, SAMPLES, WIDTH = 20, 6, 1200
RADIUS = DIM**0.5
SPHERE = FixedNorm(RADIUS)
LINEAR = Nuisance(linear=True)


def problem(nuisance=LINEAR):
    """The span equation of abs features, its true rows, and a generator."""
    generator = torch.Generator().manual_seed(0)
    features = RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=0), "abs")
    true = SPHERE.retract(torch.randn(SAMPLES, DIM, generator=generator))
    # Every sample counts: none has a coefficient near 0.
    coefficients = 1 + torch.rand(1, SAMPLES, generator=generator)
    theta = coefficients @ features.forward(true)
    if nuisance.linear:
        theta = theta + features.matvec(torch.randn(1, DIM, generator=generator))
    return Span(features, theta, nuisance), true, generator


def begin(span, rows, max_steps=900):
    phase = MomentumPhase(span, SPHERE, SpectralTuning(), max_steps, MomentumTuning())
    return phase, phase.begin(rows)


def take_steps(phase, state, generator, count, size=400):
    """The state after so many steps on random subsets, and the residuals there."""
    residuals = []
    for _ in range(count):
        state, residual = phase.step(state, torch.randperm(WIDTH, generator=generator)[:size], 0.015)
        residuals.append(residual)
    return state, residuals


def near(true, generator, size=0.1):
    return SPHERE.retract(true + size * torch.randn(true.shape, generator=generator))


def test_a_step_from_rest_goes_the_way_of_a_preconditioned_gradient():
    """One conjugate-gradient step from zero is along the preconditioned gradient too."""
    span, true, generator = problem(Nuisance())
    point = span.at(near(true, generator))
    step = momentum_step(span, point, torch.zeros_like(point.rows), 0.015, SPHERE)
    one, _ = gauss_newton_step(span, point, 0.015, SPHERE, CGOptions(1, 1e-9))
    assert float(torch.nn.functional.cosine_similarity(step.flatten(), one.flatten(), dim=0)) == pytest.approx(1)
    assert float((step * point.rows).sum(1).abs().max()) < 1e-4 * RADIUS  # along the sphere


def test_a_share_of_the_last_step_is_kept():
    span, true, generator = problem(Nuisance())
    point = span.at(near(true, generator))
    rest = torch.zeros_like(point.rows)
    first = momentum_step(span, point, rest, 0.015, SPHERE)
    second = momentum_step(span, point, first, 0.015, SPHERE)
    share = (second - first).norm() / first.norm()
    assert 0 < float(share) < 1
    torch.testing.assert_close(second - first, share * first, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("nuisance", [Nuisance(), LINEAR])
def test_near_the_samples_the_residual_collapses(nuisance):
    span, true, generator = problem(nuisance)
    phase, state = begin(span, near(true, generator))
    state, residuals = take_steps(phase, state, generator, 300)
    assert statistics.median(residuals[-5:]) < MomentumTuning().collapsed < residuals[0]
    assert phase.is_over(residuals, 300)
    found = torch.nn.functional.cosine_similarity(phase.rows_of(state), true).abs()
    assert float(found.min()) > 1 - 1e-6


def test_a_step_costs_two_passes_over_its_subset():
    span, true, generator = problem(Nuisance())
    phase, state = begin(span, near(true, generator))
    span.features.counter.work = 0
    take_steps(phase, state, generator, 10, size=WIDTH // 4)
    assert span.features.counter.passes(SAMPLES, WIDTH, DIM) == pytest.approx(10 * 2 / 4, rel=0.01)


def test_the_residual_is_at_rest_when_it_no_longer_falls():
    phase, _ = begin(*problem()[:2])
    remembered = MomentumTuning().remembered
    assert phase.is_at_rest([0.5] * remembered)
    assert not phase.is_at_rest([0.5] * (remembered - 1))
    assert not phase.is_at_rest([0.99**step for step in range(remembered)])


def test_a_row_that_matches_no_sample_is_replaced_by_one_that_does():
    """Two rows at one sample and none at another: the spare one moves to where the residual points."""
    span, true, generator = problem()
    rows = near(true, generator, 0.01)
    rows[1] = near(true[:1], generator, 0.01)
    phase, state = begin(span, rows)
    replaced = phase.replace_idle_rows(state, generator)
    assert replaced.replacements == 1
    assert not replaced.velocity.any()
    after = phase.rows_of(replaced)
    moved = (after != rows).any(dim=1).nonzero().flatten().tolist()
    assert moved in ([0], [1])
    found = torch.nn.functional.cosine_similarity(after[moved], true[1:2]).abs()
    assert float(found) > 0.8


def test_rows_are_replaced_four_times_at_most():
    span, true, generator = problem()
    phase, state = begin(span, near(true, generator, 3.0))
    replaced = [state]
    for _ in range(4):
        state = phase.replace_idle_rows(replaced[-1], generator)
        if state is not None:
            replaced.append(state)
    assert 1 <= replaced[-1].replacements <= 4
    assert phase.replace_idle_rows(replace(replaced[-1], replacements=4), generator) is None


def test_the_phase_ends_when_its_steps_are_spent():
    span, true, generator = problem()
    phase, state = begin(span, near(true, generator), max_steps=20)
    state, residuals = take_steps(phase, state, generator, 20)
    assert not phase.is_over(residuals[:19], 19)
    assert phase.is_over(residuals, 20)
    assert state.rows.shape == (SAMPLES + 1, DIM)  # the linear part is solved for jointly
    assert phase.rows_of(state).shape == (SAMPLES, DIM)


def test_the_phase_spares_passes():
    """The same problem without it: Gauss-Newton steps from the beginning."""
    training = data.load("sphere", dim=30, samples=20, seed=0)
    target = exhume.RandomFeatures(num_features=1800).fit(training.inputs, training.labels).target()
    result = exhume.reconstruct(target, num_samples=20)
    subsets = replace(DEFAULT_TUNING.subsets, momentum=MomentumTuning(collapsed=math.inf))  # over after its first step
    other = type("Exact", (exhume.Exact,), {"tuning": replace(DEFAULT_TUNING, subsets=subsets)})
    without = other()(target, num_samples=20)
    assert result.certificate.verdict == without.certificate.verdict == "exact"
    assert result.passes < 0.8 * without.passes
