"""A ladder of sample counts where their number is not known."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import exhume
from exhume import data
from exhume.auditing.ladder import climb, dependence, rungs
from exhume.results.stop import Stop


def test_counts_rise_by_half_up_to_the_largest():
    assert list(rungs(20)) == [1, 2, 3, 4, 6, 9, 14, 20]
    assert list(rungs(1)) == [1]


def fake(count, true_count, passes=10.0):
    """An attack that is exact at one count, converges above it and fails below."""
    verdict = "exact" if count == true_count else "approximate" if count > true_count else "failed"
    bars = (1e-6,) * count if count >= true_count else ()
    certificate = SimpleNamespace(
        verdict=verdict, predicted_errors=bars, predicted_error=1e-6 if bars else None, residual=1.0 / count
    )
    stop = Stop.CONVERGED if count >= true_count else Stop.STARTS_SPENT
    return SimpleNamespace(samples=torch.zeros(count, 2), certificate=certificate, stop=stop, passes=passes)


@pytest.mark.parametrize("true_count", [1, 2, 7, 11, 13, 40])
def test_the_smallest_count_that_converges_is_found(true_count):
    asked = []

    def run_with(count, *_budget):
        asked.append(count)
        return fake(count, true_count)

    found, ladder = climb(run_with, 40, max_passes=1e6, max_seconds=60)
    assert len(found.samples) == true_count
    assert found.certificate.verdict == "exact"
    assert [each.num_samples for each in ladder] == sorted(set(asked))
    assert f"{true_count}: exact, {true_count} certified" in dependence(ladder)


def test_the_budget_of_passes_is_kept():
    def run_with(count, max_passes, _seconds):
        return fake(count, 1000, passes=max_passes)

    _, ladder = climb(run_with, 30, max_passes=100, max_seconds=60)
    assert len(ladder) == len(list(rungs(30)))
    assert climb(run_with, 30, max_passes=100, max_seconds=0)[1] == ()


def test_an_audit_without_the_number_of_samples_tries_several_and_says_so():
    points = data.load("sphere", dim=6, samples=3)
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(6, 120), nn.GELU()).requires_grad_(False)
    model = nn.Sequential(body, nn.Linear(120, 2, bias=False)).eval()
    values = torch.randn(3, 2, generator=torch.Generator().manual_seed(1))
    model[1].weight.data = torch.linalg.lstsq(body(points.inputs), values).solution.T.contiguous()
    found = exhume.audit(model, initial="zero", input_shape=(6,), budget_passes=4000)
    ladder = {each.num_samples: each for each in found.attempts[0].ladder}
    assert ladder[3].verdict == "exact"
    assert ladder[1].verdict == "failed"
    assert len(found.result.samples) == 3
    assert "The number of samples was not known" in found.summary()
    assert found.outcome.value == "recovered"


def test_a_truth_of_another_length_is_pointed_out():
    points = data.load("sphere", dim=8, samples=4)
    target = exhume.RandomFeatures(num_features=200).fit(points.inputs, points.labels).target()
    found = exhume.audit(target, truth=points.inputs[:3], num_samples=4)
    assert "told to look for 4 samples, but the truth that was given has 3" in found.summary()
