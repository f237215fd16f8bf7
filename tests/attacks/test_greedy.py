"""The greedy attack: records behind random Fourier features, to the last digit, and certified only if right."""

import numpy as np
import pytest
import torch

import exhume
from exhume.attacks._base.greedy_tuning import AscentTuning
from exhume.attacks._search.ascent import Ascent, distinct
from exhume.equation.dense_span import DenseSpan
from exhume.equation.norms import FreeNorm
from exhume.errors import InputError
from exhume.features.pipeline import functions
from exhume.features.pipeline.fourier import COSINE, fourier_map
from exhume.features.pipeline.function_map import FunctionMap

DIM, SAMPLES = 4, 5


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fourier(width, gamma, dim=DIM):
    phases = 2 * torch.pi * torch.rand(width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return fourier_map((2 * gamma) ** 0.5 * normal(width, dim, seed=2), phases)


def problem(gamma=0.3, width=120, outputs=1, features=None):
    features = features or fourier(width, gamma)
    samples = normal(SAMPLES, DIM)
    return exhume.Target(features, normal(outputs, SAMPLES, seed=3) @ features.forward(samples)), samples


def greatest_error(result, samples):
    distances = torch.cdist(result.samples, samples)
    assert sorted(distances.argmin(1).tolist()) == list(range(len(samples)))
    return float(distances.min(1).values.max())


@pytest.mark.parametrize("gamma", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("count", [SAMPLES, None])
def test_records_come_back_to_the_last_digits_at_every_bandwidth(gamma, count):
    target, samples = problem(gamma)
    result = exhume.Greedy(starts=200)(target, num_samples=count)
    assert result.certificate.verdict == "exact"
    assert greatest_error(result, samples) < 1e-9


def test_several_outputs_and_known_samples():
    target, samples = problem(width=60, outputs=2)
    result = exhume.Greedy(starts=200)(target, num_samples=SAMPLES)
    assert result.certificate.verdict == "exact"
    assert greatest_error(result, samples) < 1e-9
    known = target.assuming(samples=samples[:2])
    result = exhume.Greedy(starts=200)(known, num_samples=SAMPLES)
    assert result.certificate.verdict == "exact"
    assert greatest_error(result, samples[2:]) < 1e-9


def test_polynomial_features():
    powers = [
        [(index == one) + (index == two) + (index == three) for index in range(DIM)]
        for one in range(DIM)
        for two in range(one, DIM)
        for three in range(two, DIM)
    ]
    powers += [
        [(index == one) + (index == two) for index in range(DIM)] for one in range(DIM) for two in range(one, DIM)
    ]
    features = FunctionMap((functions.Monomials(torch.tensor([*powers, *np.eye(DIM, dtype=int).tolist()])),), DIM)
    target, samples = problem(features=features)
    result = exhume.Greedy(starts=200)(target, num_samples=SAMPLES)
    assert result.certificate.verdict == "exact"
    assert greatest_error(result, samples) < 1e-8


def test_a_wrong_number_of_samples_is_not_certified():
    target, _ = problem()
    result = exhume.Greedy(starts=100, max_rounds=8)(target, num_samples=SAMPLES - 1)
    assert result.certificate.verdict == "failed"


def test_too_large_a_number_of_samples_is_reduced_to_what_explains_the_weights():
    target, samples = problem()
    result = exhume.Greedy(starts=200)(target, num_samples=SAMPLES + 3)
    assert greatest_error(result, samples) < 1e-9
    assert f"{SAMPLES} of the {SAMPLES + 3} looked for explain the weights" in result.summary()


def test_a_sample_without_a_coefficient_is_neither_found_nor_counted():
    features, samples = fourier(120, 0.3), normal(SAMPLES, DIM)
    weights = normal(1, SAMPLES, seed=3)
    weights[0, 2] = 0
    result = exhume.Greedy(starts=200)(
        exhume.Target(features, weights @ features.forward(samples)), num_samples=SAMPLES
    )
    assert result.certificate.verdict == "exact"
    assert greatest_error(result, samples[[0, 1, 3, 4]]) < 1e-9


def test_starts_follow_the_columns_that_are_known():
    features = fourier(160, 1.0)
    samples = 20 + 3 * normal(SAMPLES, DIM)
    narrow = fourier_map((2.0 / 9) ** 0.5 * normal(160, DIM, seed=2), features.offset)
    target = exhume.Target(narrow, normal(1, SAMPLES, seed=3) @ narrow.forward(samples))
    informed = target.assuming(column_mean=(20.0,) * DIM, column_std=(3.0,) * DIM)
    result = exhume.Greedy(starts=200)(informed, num_samples=SAMPLES)
    assert result.certificate.verdict == "exact"
    assert greatest_error(result, samples) < 1e-8
    with pytest.raises(InputError, match="column_std has 2 numbers, the model takes 4"):
        target.assuming(column_std=(1.0, 1.0))


def test_the_slope_of_the_cosine_and_its_kernel():
    points = torch.linspace(-3, 3, 50, dtype=torch.float64)
    slopes = (torch.cos(points + 1e-6) - torch.cos(points - 1e-6)) / 2e-6
    torch.testing.assert_close(COSINE.slope(points), slopes, atol=1e-8, rtol=1e-6)
    first, second = normal(200_000, seed=4), normal(200_000, seed=5)
    mean = (torch.sin(first) * torch.sin(0.6 * first + 0.8 * second)).mean()
    assert float(COSINE.slope_kernel(torch.tensor(0.6, dtype=torch.float64))) == pytest.approx(float(mean), abs=0.01)


def test_ascent_ends_at_the_top_of_the_bump_of_a_single_sample():
    features = fourier(4000, 0.3)
    sample = normal(1, DIM)
    ascent = Ascent(features, FreeNorm(1.0), AscentTuning())
    points, values = ascent.climb(features.forward(sample), sample + 0.7 * normal(64, DIM, seed=6))
    assert float((points[values.argmax()] - sample).norm()) < 1e-3
    assert float(values.max()) == pytest.approx(1.0, abs=1e-5)


def test_a_climb_beside_other_rows_and_their_moves_finds_the_missing_sample():
    features, samples = fourier(400, 0.1), normal(4, DIM)
    weights = torch.tensor([[3.0, -2.0, 2.0, 0.2]], dtype=torch.float64) @ features.forward(samples)
    equation = DenseSpan(features, weights)
    rows = samples[:3]  # the last is missing, and the others do not move for it
    point = equation.at(rows)
    moves = torch.linalg.qr(equation.dense_jacobian(point).flatten(1))[0]
    spanned = torch.cat([point.basis, moves], 1)
    residual = point.residual - (point.residual @ spanned) @ spanned.T
    ascent = Ascent(features, FreeNorm(1.0), AscentTuning())
    points, values = ascent.climb(residual, samples[3:] + 0.3 * normal(64, DIM, seed=6), spanned)
    assert float((points[values.argmax()] - samples[3]).norm()) < 1e-2
    assert float(values.max()) == pytest.approx(1.0, abs=1e-3)
    plain = ascent.climb(residual, samples[3:])[1]
    assert float(plain.max()) < 0.9


def test_points_that_are_taken_differ():
    features = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.5, 0.5]])
    assert distinct(features, torch.tensor([1.0, 0.9, 0.8, 0.1]), 3, 0.5, 0.7) == [0, 2]
    assert distinct(features, torch.tensor([1.0, 0.9, 0.8, 0.1]), 1, 0.5, 0.7) == [0]


def test_settings_and_sizes_that_do_not_work_are_named():
    with pytest.raises(InputError, match="starts at least 1, got 0 and 0"):
        exhume.Greedy(starts=0)
    target, _ = problem()
    with pytest.raises(InputError, match="120 samples span all 120 features"):
        exhume.Greedy()(target, num_samples=120, allow_underdetermined=True)
