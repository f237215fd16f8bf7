"""The certificate's numbers against dense oracles."""

import math
from dataclasses import replace

import pytest
import torch

from exhume import data
from exhume.activations import Activation
from exhume.equation.span import Span
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.results import certificate
from exhume.results.certificate import Trust
from exhume.results.stop import Stop
from exhume.solvers import FixedNorm, FreeNorm, StoppingRule, levenberg_marquardt

DIM, SAMPLES, WIDTH = 6, 3, 200
FREE = FreeNorm(DIM**0.5)


def normal(span, point, directions):
    """The Gauss-Newton operator J^T P J."""
    return span.adjoint(point, span.project(point, span.jacobian(point, directions)))


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
    dense = torch.stack([normal(span, point, direction).reshape(-1) for direction in eye])
    return span, point, dense


def test_smallest_singular_value_is_that_of_the_dense_jacobian(solved):
    span, point, dense = solved
    expected = math.sqrt(float(torch.linalg.eigvalsh(dense)[0]))
    assert certificate.NormalOperator(span, point, FREE).smallest_singular_value() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("norms", [FREE, FixedNorm(DIM**0.5)])
def test_the_solves_alone_tell_the_smallest_singular_value_nearly(solved, norms):
    span, point, _ = solved
    exactly = certificate.NormalOperator(span, point, norms).smallest_singular_value()
    operator = certificate.NormalOperator(span, point, norms, certificate.Limits(dense=0))
    certificate.predict_errors(operator, 150, seed=0)
    work = span.features.counter.work
    assert exactly * (1 - 1e-6) <= operator.smallest_singular_value() <= 1.1 * exactly
    assert span.features.counter.work == work  # no further pass


def test_predicted_errors_are_the_dense_covariance_and_the_step_left(solved):
    span, point, dense = solved
    precise = certificate.Limits(probe_coordinates=6_000, solve_tolerance=1e-8)
    surplus = 150
    variance = float(point.residual.square().sum()) / surplus
    inverse = torch.linalg.inv(dense)
    traces = inverse.diagonal().reshape(SAMPLES, DIM).sum(1)
    left = (inverse @ span.gradient(point).reshape(-1)).reshape(SAMPLES, DIM).square().sum(1)
    expected = (left + variance * traces).sqrt() / math.sqrt(DIM)
    operator = certificate.NormalOperator(span, point, FREE, precise)
    predicted = torch.tensor(certificate.predict_errors(operator, surplus, seed=0), dtype=torch.float64)
    torch.testing.assert_close(predicted, expected, rtol=0.15, atol=0)


def judge(solved, **changes):
    span, point, _ = solved
    trust = Trust(Stop.CONVERGED, unknowns=21, norms=FREE, precision=1e-7)
    return certificate.certify(span, point, replace(trust, **changes), seed=0)


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


def test_a_minimum_that_is_not_trusted_is_failed(solved):
    result = judge(solved, stop=Stop.STARTS_SPENT)
    assert (result.verdict, result.reason) == ("failed", Stop.STARTS_SPENT.sentence)


def test_directions_that_the_equations_leave_open_are_never_called_exact():
    """Features that are linear in the input show only the span of the samples."""
    linear = Activation("line", lambda z: z, torch.ones_like, "odd", homogeneity=1)
    training = data.load("sphere", dim=12, samples=3, seed=0)
    features = RandomFeatureMap(GaussianMatrix(200, 12, seed=0), linear, torch.float64)
    phi = features.forward(training.inputs)
    theta = torch.randn((3, 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64) @ phi
    span = Span(features, theta)
    mixed = training.inputs.double() + 0.3 * training.inputs.double().flip(0)
    verdict = judge((span, span.at(mixed), None), unknowns=40, norms=FixedNorm(12**0.5))
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


def several_outputs(num_features, num_outputs, num_samples, dim=20):
    """An exact float64 ReLU equation with several outputs at its truth, and its trust."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn((num_samples, dim), generator=generator, dtype=torch.float64)
    weights = torch.randn((num_outputs, num_samples), generator=generator, dtype=torch.float64)
    features = RandomFeatureMap(GaussianMatrix(num_features, dim, seed=0), "relu", torch.float64)
    span = Span(features, weights @ features.forward(rows))
    unknowns = num_samples * (dim - 1 + num_outputs)
    return span, span.at(rows), Trust(Stop.CONVERGED, unknowns=unknowns, norms=FixedNorm(dim**0.5), precision=1e-7)


def test_a_sample_with_fewer_active_features_than_numbers_fails_whatever_the_number_of_outputs():
    span, point, trust = several_outputs(num_features=36, num_outputs=5, num_samples=5)
    active = (point.features > 0).sum(1)
    result = certificate.certify(span, point, trust, seed=0)
    assert result.equations > result.unknowns
    assert (result.equations_per_sample, result.unknowns_per_sample) == (int(active.min()), 20)
    assert active.min() <= 20
    assert (result.verdict, result.determined) == ("failed", False)
    assert f"give it {int(active.min())} equations only, for its 20 unknowns" in result.reason


def test_samples_that_share_features_get_no_more_equations_from_one_than_there_are_outputs():
    span, point, trust = several_outputs(num_features=80, num_outputs=2, num_samples=6)
    shared = (point.features > 0).sum(0).clamp_max(2).sum()
    result = certificate.certify(span, point, trust, seed=0)
    assert result.equations_per_sample == math.ceil(float(shared) / 6) < int((point.features > 0).sum(1).min())


def test_enough_active_features_for_every_sample_are_exact():
    result = certificate.certify(*several_outputs(num_features=80, num_outputs=5, num_samples=5), seed=0)
    assert (result.verdict, result.determined) == ("exact", True)
    assert result.equations_per_sample > 20


def with_structured_error(size):
    """A tanh equation whose second half of coordinates belongs to samples that lie elsewhere, solved for one set."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn((SAMPLES, DIM), generator=generator, dtype=torch.float64)
    weights = torch.randn((2, SAMPLES), generator=generator, dtype=torch.float64)
    features = RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=0), "tanh", torch.float64)
    moved = rows + size * torch.randn(rows.shape, generator=generator, dtype=torch.float64)
    theta = weights @ features.forward(rows)
    theta[:, WIDTH // 2 :] = (weights @ features.forward(moved))[:, WIDTH // 2 :]
    span = Span(features, theta)
    return span, levenberg_marquardt(span, rows, FREE, StoppingRule(30)).point


def test_leave_out_errors_are_the_jackknife_of_dense_gauss_newton_steps():
    span, point = with_structured_error(0.05)
    limits = certificate.Limits(parts=4, solve_steps=300, solve_tolerance=1e-10)
    steps = []
    for part in range(4):
        kept = [column for column in range(WIDTH) if not part * 50 <= column < (part + 1) * 50]
        others = span.subset(torch.tensor(kept))
        here = others.at(point.rows)
        eye = torch.eye(SAMPLES * DIM, dtype=torch.float64).reshape(-1, SAMPLES, DIM)
        dense = torch.stack([normal(others, here, direction).reshape(-1) for direction in eye])
        steps.append(torch.linalg.solve(dense, others.gradient(here).reshape(-1)).reshape(SAMPLES, DIM))
    spread = torch.stack(steps) - torch.stack(steps).mean(0)
    expected = (0.75 * spread.square().sum((0, 2))).sqrt() / point.samples.norm(dim=1)
    found = torch.tensor(certificate.leave_out_errors(span, point, FREE, limits), dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)


def test_parts_of_the_equations_that_disagree_widen_the_bars_of_drifting_features():
    span, point = with_structured_error(0.05)
    trust = Trust(Stop.FLOOR, unknowns=SAMPLES * (DIM + 2), norms=FREE, precision=1e-7)
    white, drifting = (
        certificate.certify(span, point, replace(trust, drifting=each), seed=0).predicted_errors
        for each in (False, True)
    )
    assert all(wide > 1.3 * narrow for wide, narrow in zip(drifting, white, strict=True))


def test_a_residual_that_drift_does_not_explain_widens_the_bars_by_its_excess():
    span, point = with_structured_error(0.01)
    trust = Trust(Stop.FLOOR, unknowns=SAMPLES * (DIM + 2), norms=FREE, precision=1e-7, drifting=True)
    residual, limit = math.sqrt(point.loss), trust.limits.max_excess
    explained, unexplained = (
        certificate.certify(span, point, replace(trust, drift_floor=residual / excess), seed=0).predicted_errors
        for excess in (limit, 3 * limit)
    )
    assert unexplained == pytest.approx([3 * bar for bar in explained])


def test_twins_are_told_apart_if_their_other_bars_are_far_below_half_their_distance():
    rows = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.4, 0.0]], dtype=torch.float64)
    features = RandomFeatureMap(GaussianMatrix(WIDTH, 3, seed=0), "tanh", torch.float64)
    weights = torch.tensor([[1.0, 0.5], [2.0, 1.0]], dtype=torch.float64)
    point = Span(features, weights.T @ features.forward(rows)).at(rows)
    half, limit = 0.2, certificate.Limits().told_apart
    assert certificate.mixing_errors(point)[0] == pytest.approx(half)
    assert certificate.mixing_errors(point, errors=(0.5 * half / limit, 1.1 * half / limit))[0] == pytest.approx(half)
    assert certificate.mixing_errors(point, errors=(0.5 * half / limit, 0.9 * half / limit)) == (0.0, 0.0)


def test_one_sample_that_is_badly_determined_fails_a_drifted_network():
    """Another start may fit the weights as well: such a row matches no sample, and the others pay for it."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(SAMPLES, DIM, generator=generator, dtype=torch.float64)
    features = RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=0), "tanh", torch.float64)
    clean = torch.tensor([[1.0, -0.5, 1e-3]], dtype=torch.float64) @ features.forward(rows)
    span = Span(features, clean + 1e-2 * torch.randn(clean.shape, generator=generator, dtype=torch.float64))
    trust = Trust(Stop.FLOOR, unknowns=SAMPLES * (DIM + 1), norms=FREE, precision=1e-7, drift_floor=1.0, drifting=True)
    found = certificate.certify(span, span.at(rows), trust, seed=0)
    assert found.verdict == "failed"
    assert "spurious minimum" in found.reason


def test_outputs_that_repeat_each_other_add_no_equations():
    """Cross-entropy with two classes: the two rows of Theta are opposite; 90 features are too few for 96 numbers."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn((8, 12), generator=generator, dtype=torch.float64)
    features = RandomFeatureMap(GaussianMatrix(90, 12, seed=0), "tanh", torch.float64)
    one = torch.randn((1, 8), generator=generator, dtype=torch.float64) @ features.forward(rows)
    trust = Trust(Stop.CONVERGED, unknowns=8 * (12 + 1), norms=FreeNorm(12**0.5), precision=1e-7)
    for size in (0.0, 1e-3):  # as weight decay leaves a share of the initial head in the sum of the rows
        theta = torch.cat([one, -one]) + size * torch.randn((2, 90), generator=generator, dtype=torch.float64)
        span = Span(features, theta)
        point = span.at(rows)
        independent, clear = span.independent_outputs(point)
        assert (independent, clear) == (1 if size == 0 else 2, 1)
        judged = certificate.certify(span, point, replace(trust, unknowns=8 * (12 + independent)), seed=0)
        assert (judged.equations, judged.unknowns, judged.verdict) == (90, 104, "failed")


def test_fewer_samples_than_outputs_keep_the_count_of_all_outputs():
    span, point, _ = several_outputs(num_features=80, num_outputs=5, num_samples=3)
    assert span.independent_outputs(point) == (5, 5)


def test_rows_that_solve_nothing_say_nothing_about_the_number_of_equations():
    span, point, _ = several_outputs(num_features=80, num_outputs=5, num_samples=3)
    wrong = span.at(torch.randn_like(point.rows))
    assert span.independent_outputs(wrong)[1] < 5
    trust = Trust(Stop.PASS_LIMIT, unknowns=3 * (point.rows.shape[1] + 5), norms=FreeNorm(1.0), precision=1e-7)
    judged = certificate.certify(span, wrong, trust, seed=0)
    assert (judged.equations, judged.reason) == (400, Stop.PASS_LIMIT.sentence)
