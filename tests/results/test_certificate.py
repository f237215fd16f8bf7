"""The certificate's numbers against dense oracles."""

import math

import pytest
import torch

from exhume import certificate, data
from exhume.activations import Activation
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.span import Span

DIM, SAMPLES, WIDTH = 6, 3, 200


@pytest.fixture
def solved():
    """A float64 equation with noise, at its true samples, and the dense Gauss-Newton matrix there."""
    training = data.load("sphere", dim=DIM, samples=SAMPLES, seed=0)
    rows = training.inputs.double()
    features = RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=0), "tanh", torch.float64)
    generator = torch.Generator().manual_seed(0)
    theta = torch.tensor([[1.0, -0.5, 2.0]], dtype=torch.float64) @ features.forward(rows)
    theta += 0.01 * torch.randn(theta.shape, generator=generator, dtype=torch.float64)
    span = Span(features, theta)
    point = span.at(rows)
    eye = torch.eye(SAMPLES * DIM, dtype=torch.float64).reshape(-1, SAMPLES, DIM)
    dense = torch.stack([span.normal(point, direction).reshape(-1) for direction in eye])
    return span, point, dense


def test_smallest_singular_value_is_that_of_the_dense_jacobian(solved):
    span, point, dense = solved
    expected = math.sqrt(float(torch.linalg.eigvalsh(dense)[0]))
    assert certificate.Explored(span, point, False).smallest_singular_value() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("norm_is_open", [False, True])
def test_the_solves_alone_tell_the_smallest_singular_value_nearly(solved, monkeypatch, norm_is_open):
    span, point, _ = solved
    exactly = certificate.Explored(span, point, norm_is_open).smallest_singular_value()
    monkeypatch.setattr(certificate, "_DENSE", 0)
    explored = certificate.Explored(span, point, norm_is_open)
    certificate.predict_errors(explored, span, point, 150, seed=0)
    monkeypatch.setattr(Span, "normal", None)  # no further pass
    assert exactly * (1 - 1e-6) <= explored.smallest_singular_value() <= 1.1 * exactly


def test_predicted_errors_are_the_dense_covariance_and_the_step_left(solved, monkeypatch):
    span, point, dense = solved
    monkeypatch.setattr(certificate, "_PROBE_COORDINATES", 6_000)
    monkeypatch.setattr(certificate, "_SOLVE_TOLERANCE", 1e-8)
    surplus = 150
    variance = float(point.residual.square().sum()) / surplus
    inverse = torch.linalg.inv(dense)
    traces = inverse.diagonal().reshape(SAMPLES, DIM).sum(1)
    left = (inverse @ span.gradient(point).reshape(-1)).reshape(SAMPLES, DIM).square().sum(1)
    expected = (left + variance * traces).sqrt() / math.sqrt(DIM)
    explored = certificate.Explored(span, point, False)
    predicted = torch.tensor(certificate.predict_errors(explored, span, point, surplus, seed=0), dtype=torch.float64)
    torch.testing.assert_close(predicted, expected, rtol=0.15, atol=0)


def judge(solved, **changes):
    span, point, _ = solved
    settings = {
        "unknowns": 21,
        "trusted": True,
        "why_not": "It did not converge.",
        "norm_is_open": False,
        "precision": 1e-7,
        "seed": 0,
    }
    return certificate.certify(span, point, **(settings | changes))


def test_noise_above_the_floor_is_approximate(solved):
    verdict = judge(solved)
    assert verdict.verdict == "approximate"
    assert verdict.residual > verdict.floor
    assert 0 < verdict.predicted_error < 0.1
    assert verdict.smallest_singular_value > 0


def test_residual_at_the_floor_with_small_error_bars_is_exact(solved):
    span, point, _ = solved
    clean = Span(span.features, point.coefficients.T @ point.features)
    result = judge((clean, clean.at(point.rows), None))
    assert result.verdict == "exact"
    assert max(result.predicted_errors) < 1e-3


def test_fewer_equations_than_unknowns_can_never_be_exact(solved):
    result = judge(solved, unknowns=WIDTH)
    assert (result.verdict, result.predicted_errors) == ("failed", ())
    assert "Fewer equations than unknowns" in result.reason


def test_minimum_that_the_attack_does_not_vouch_for_is_failed(solved):
    result = judge(solved, trusted=False)
    assert (result.verdict, result.reason) == ("failed", "It did not converge.")


def test_directions_that_the_equations_leave_open_are_never_called_exact():
    """Features that are linear in the input show only the span of the samples."""
    linear = Activation("line", lambda z: z, torch.ones_like, "odd", homogeneity=1)
    training = data.load("sphere", dim=12, samples=3, seed=0)
    features = RandomFeatureMap(GaussianMatrix(200, 12, seed=0), linear, torch.float64)
    phi = features.forward(training.inputs)
    theta = torch.randn((3, 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64) @ phi
    span = Span(features, theta)
    mixed = training.inputs.double() + 0.3 * training.inputs.double().flip(0)
    verdict = certificate.certify(
        span,
        span.at(mixed),
        unknowns=40,
        trusted=True,
        why_not="",
        norm_is_open=True,
        precision=1e-7,
        seed=0,
    )
    assert verdict.residual < 1e-7
    assert verdict.verdict == "failed"
    assert "open" in verdict.reason


def test_twins_with_parallel_coefficients_have_bars_as_wide_as_half_their_distance_unless_the_fit_is_exact():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(4, DIM, generator=generator, dtype=torch.float64)
    rows[1] = rows[0] + 0.4 * rows[1]  # alike, with parallel coefficients; 2 and 3 have them too, but are not alike
    rows[3] -= (rows[3] @ rows[2]) / (rows[2] @ rows[2]) * rows[2]
    weights = torch.tensor([[1.0, 0.5], [2.0, 1.01], [1.0, -1.0], [1.0, -1.0]], dtype=torch.float64)
    features = RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=0), "tanh", torch.float64)
    clean = weights.T @ features.forward(rows)
    noise = torch.randn(clean.shape, generator=generator, dtype=torch.float64)
    mixed = float((rows[0] - rows[1]).norm() / 2)
    for size in (1e-3, 0.0):
        span = Span(features, clean + size * noise)
        point = span.at(rows)
        bars = judge((span, point, None), unknowns=32).predicted_errors
        if size:
            assert bars[0] == pytest.approx(mixed / float(rows[0].norm()))
            assert bars[1] == pytest.approx(mixed / float(rows[1].norm()))
            assert max(bars[2:]) < 0.05
        else:
            assert max(bars) < 1e-3
    assert certificate.mixing_errors(span.at(rows[2:])) == (0.0, 0.0)
