"""The normal system of the span equation: the same solution with V kept or generated, and its preconditioner."""

import pytest
import torch

from exhume.equation.nuisance import Nuisance
from exhume.equation.span import Span
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.results import certificate
from exhume.solvers import CGOptions, FixedNorm, FreeNorm, gauss_newton_step

DIM, SAMPLES, WIDTH = 20, 6, 700
SPHERE = FixedNorm(DIM**0.5)
FEW, DAMPING = 3, 0.05  # samples and damping of the preconditioner's tests


def make(budget, outputs, nuisance, dtype=torch.float64):
    features = RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=0, memory_budget=budget), "relu", dtype)
    generator = torch.Generator().manual_seed(1)
    true, wobble = (torch.randn(SAMPLES, DIM, generator=generator, dtype=dtype) for _ in range(2))
    theta = torch.randn(outputs, SAMPLES, generator=generator, dtype=dtype) @ features.forward(SPHERE.retract(true))
    span = Span(features.with_activation("abs" if nuisance.linear else "relu"), theta, nuisance)
    rows = SPHERE.retract(true + 0.2 * wobble)
    return span, span.at(torch.cat([rows, span.first_linear()]) if span.num_linear else rows)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("nuisance", [Nuisance(), Nuisance(linear=True, joint=True), Nuisance(constant=True)])
def test_a_step_is_the_same_with_v_kept_and_generated_anew(outputs, nuisance):
    steps = []
    for budget in ("1GB", 0):
        span, point = make(budget, outputs, nuisance)
        assert span.prefers_joint_form(point) == (budget == 0 and not nuisance.constant)
        steps.append(gauss_newton_step(span, point, 1e-2, SPHERE, CGOptions(200, 1e-9)))
    (kept, fall), (anew, fall_anew) = steps
    torch.testing.assert_close(anew, kept, rtol=0, atol=1e-6 * float(kept.abs().max()))
    assert fall_anew == pytest.approx(fall, rel=1e-6)


def test_a_predicted_fall_is_right_for_a_step_that_is_not_solved_to_the_end():
    """||r - J D - C^T Phi||^2 falls by the predicted amount, for the C of the solve or a better one."""
    span, point = make(0, 1, Nuisance())
    step, fall = gauss_newton_step(span, point, 1e-2, SPHERE, CGOptions(2, 1e-9))
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
        lambda self, start, stop, buffer=None: drawn.append((start, stop)) or generate(self, start, stop, buffer),
    )
    span.features.counter.work = 0
    gauss_newton_step(span, point, 1e-2, SPHERE, CGOptions(7, 1e-12))
    assert span.features.counter.passes(SAMPLES, WIDTH, DIM) == 1 + 2 * 7
    assert len(drawn) == 1 + 7


def test_a_certificate_says_the_same_with_v_kept_and_generated_anew():
    precise, found = certificate.Limits(solve_tolerance=1e-7), []
    for budget in ("1GB", 0):
        span, point = make(budget, 1, Nuisance())
        operator = certificate.NormalOperator(span, point, SPHERE, precise)
        found.append((certificate.predict_errors(operator, 500, 0), operator.smallest_singular_value()))
    (kept, smallest), (anew, smallest_anew) = found
    assert anew == pytest.approx(kept, rel=1e-4)
    assert smallest_anew == pytest.approx(smallest, rel=0.02)


@pytest.mark.parametrize("budget", ["1GB", 0])
def test_directions_that_change_nothing_show_in_the_smallest_singular_value(budget):
    """Under relu a change of a sample's norm is such a direction: the coefficient compensates it."""
    span, point = make(budget, 1, Nuisance())
    operator = certificate.NormalOperator(span, point, FreeNorm(1.0))
    certificate.predict_errors(operator, 500, 0)
    typical = float(span.mean_normal(point).diagonal().mean()) ** 0.5
    assert operator.smallest_singular_value() < 1e-5 * typical


def normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def point_of(activation, dim, width, nuisance=None):
    features = RandomFeatureMap(GaussianMatrix(width, dim, seed=1), activation, torch.float64)
    rows = FixedNorm(dim**0.5).retract(normal(FEW, dim, seed=2))
    span = Span(features, torch.tensor([[1.0, -1.2, 0.8]]).double() @ features.forward(rows), nuisance)
    return span, span.at(torch.cat([rows, span.first_linear()]) if span.num_linear else rows)


@pytest.mark.parametrize("norms", [FreeNorm(1.0), FixedNorm(1.0)])
@pytest.mark.parametrize("joint", [False, True])
def test_the_preconditioner_is_the_inverse_of_the_damped_mean_matrix_for_every_direction(joint, norms):
    span, point = point_of("abs", 5, 80, Nuisance(linear=True, joint=True) if joint else None)
    mean = span.mean_normal(point)
    rows = normal(*point.rows.shape, seed=4)
    damped = torch.kron(mean + DAMPING * torch.diag(mean.diagonal()), torch.eye(5, dtype=torch.float64))
    samples = torch.linalg.solve(damped, rows[:FEW].flatten()).reshape(FEW, 5)
    expected = torch.cat([samples, rows[FEW:] / (80 / 5)])  # V^T V is (p / d) I on average
    expected = norms.project_tangent(point.rows, expected, FEW)
    found = span.normal_system(point, DAMPING, norms)
    torch.testing.assert_close(found.precondition(rows), expected, rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(found.ridge[:FEW, 0], DAMPING * mean.diagonal(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("activation", ["abs", "relu", "tanh", "gelu"])
def test_on_wide_random_features_the_preconditioner_nearly_inverts_the_damped_gauss_newton_matrix(activation):
    """Along directions orthogonal to all samples, which the projection leaves alone; the error falls with the width."""
    errors = []
    for width in (1_000, 30_000):
        span, point = point_of(activation, 20, width)
        away = torch.linalg.qr(point.rows.T)[0]
        directions = normal(FEW, 20, seed=5)
        directions -= directions @ away @ away.T
        system = span.normal_system(point, DAMPING, FreeNorm(1.0))
        back = system.precondition(system.apply(directions))
        errors.append(float((back - directions).norm() / directions.norm()))
    assert errors[1] < 0.15
    assert errors[1] < errors[0] / 2
