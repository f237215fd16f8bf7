"""The normal equations are solved alike with V kept and with V generated for every read, which then is read less."""

import pytest
import torch

from exhume import certificate
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.features.counted import CountedFeatures
from exhume.nuisance import Nuisance
from exhume.solvers import Inner, gauss_newton_step, onto_sphere
from exhume.span import Span

DIM, SAMPLES, WIDTH = 20, 6, 700


def make(budget, outputs, nuisance, dtype=torch.float64):
    features = RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=0, memory_budget=budget), "relu", dtype)
    generator = torch.Generator().manual_seed(1)
    true, wobble = (torch.randn(SAMPLES, DIM, generator=generator, dtype=dtype) for _ in range(2))
    theta = torch.randn(outputs, SAMPLES, generator=generator, dtype=dtype) @ features.forward(
        onto_sphere(true, DIM**0.5)
    )
    counted = CountedFeatures.open(features.with_activation("abs" if nuisance.linear else "relu"), SAMPLES)
    span = Span(counted, theta, nuisance)
    rows = onto_sphere(true + 0.2 * wobble, DIM**0.5)
    return span, span.at(torch.cat([rows, span.first_linear()]) if span.num_linear else rows)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("nuisance", [Nuisance(), Nuisance(linear=True, joint=True), Nuisance(constant=True)])
def test_a_step_is_the_same_with_v_kept_and_generated_anew(outputs, nuisance):
    steps = []
    for budget in ("1GB", 0):
        span, point = make(budget, outputs, nuisance)
        assert span.can_sweep(point) == (budget == 0 and not nuisance.constant)
        steps.append(gauss_newton_step(span, point, 1e-2, Inner(200, 1e-9), DIM**0.5))
    (kept, fall), (anew, fall_anew) = steps
    torch.testing.assert_close(anew, kept, rtol=0, atol=1e-6 * float(kept.abs().max()))
    assert fall_anew == pytest.approx(fall, rel=1e-6)


def test_a_predicted_fall_is_right_for_a_step_that_is_not_solved_to_the_end():
    """||r - J D - C^T Phi||^2 falls by what was said, for the C that the solve found or a better one."""
    span, point = make(0, 1, Nuisance())
    step, fall = gauss_newton_step(span, point, 1e-2, Inner(2, 1e-9), DIM**0.5)
    change = span.project(point, span.jacobian(point, step))
    truly = (point.residual.square().sum() - (point.residual - change).square().sum()) / span.squared_norm
    assert 0 < fall <= float(truly) * (1 + 1e-9)
    assert fall > 0.8 * float(truly)


def test_v_is_generated_once_for_every_step_of_conjugate_gradients(monkeypatch):
    drawn = []
    generate = GaussianMatrix._generate
    span, point = make(0, 1, Nuisance())
    monkeypatch.setattr(
        GaussianMatrix,
        "_generate",
        lambda self, start, stop, room=None: drawn.append((start, stop)) or generate(self, start, stop, room),
    )
    before = span.features.ledger.passes
    gauss_newton_step(span, point, 1e-2, Inner(7, 1e-12), DIM**0.5)
    assert span.features.ledger.passes - before == 1 + 2 * 7
    assert len(drawn) == 1 + 7


def test_a_certificate_says_the_same_with_v_kept_and_generated_anew(monkeypatch):
    monkeypatch.setattr(certificate, "_SOLVE_TOLERANCE", 1e-7)
    told = []
    for budget in ("1GB", 0):
        span, point = make(budget, 1, Nuisance())
        explored = certificate.Explored(span, point, True)
        told.append((certificate.predict_errors(explored, span, point, 500, 0), explored.smallest_singular_value()))
    (kept, smallest), (anew, smallest_anew) = told
    assert anew == pytest.approx(kept, rel=1e-4)
    assert smallest_anew == pytest.approx(smallest, rel=0.02)


@pytest.mark.parametrize("budget", ["1GB", 0])
def test_directions_that_change_nothing_show_in_the_smallest_singular_value(budget):
    """Under relu the norm of a sample, which its coefficient makes up for."""
    span, point = make(budget, 1, Nuisance())
    explored = certificate.Explored(span, point, False)
    certificate.predict_errors(explored, span, point, 500, 0)
    typical = float(span.mean_normal(point).diagonal().mean()) ** 0.5
    assert explored.smallest_singular_value() < 1e-5 * typical
