"""An audit of an ordinary ReLU network whose head alone is below the wall: its first layer gives the samples away."""

import copy

import pytest
import torch
from torch import nn

import exhume
from exhume import data
from exhume.report import Level

COUNT, WIDTH = 6, 200


def trained():
    """A network and its weights before training."""
    digits = data.load("digits", samples=COUNT)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.mse_loss(model(digits.inputs)[:, 0], digits.labels).backward()
        optimiser.step()
    return model.eval(), before, digits.inputs


@pytest.fixture(scope="module")
def audited():
    model, before, inputs = trained()
    return exhume.audit(model, initial=before, input_shape=(64,), truth=inputs)


def test_known_samples_are_counted_once_though_unmixing_finds_them_too():
    model, before, inputs = trained()
    known = exhume.Knowledge(samples=inputs[:2])
    target = exhume.Target.last_layer(model, initial_head=before, input_shape=(64,), knowledge=known)
    found = exhume.audit(target, method="unmix")
    assert len(found.result.samples) == found.forecast.num_samples == COUNT
    assert found.count.unknowns == (COUNT - 2) * 64


def test_known_samples_are_added_to_those_that_an_attack_on_the_head_finds():
    sphere = data.load("sphere", dim=8, samples=5)
    victim = exhume.RandomFeatures(num_features=400).fit(sphere.inputs, sphere.labels)
    found = exhume.audit(victim.target(knowledge=exhume.Knowledge(samples=sphere.inputs[:2])), method="exact")
    assert (len(found.result.samples), found.forecast.num_samples) == (3, 5)
    assert found.count.unknowns == found.forecast.unknowns == 3 * 8


def test_the_rank_that_adam_leaves_is_not_taken_for_the_number_of_samples():
    digits = data.load("digits", samples=COUNT)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    before, optimiser = copy.deepcopy(model), torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(50):
        optimiser.zero_grad()
        nn.functional.mse_loss(model(digits.inputs)[:, 0], digits.labels).backward()
        optimiser.step()
    found = exhume.audit(model.eval(), initial=before, input_shape=(64,), method="unmix", budget_passes=20)
    assert found.result.certificate.verdict == "failed"
    assert len(found.result.samples) > 5 * COUNT
    assert (found.forecast, found.count) == (None, None)
    assert "What the law says" not in found.summary()
    told = exhume.audit(model, initial=before, input_shape=(64,), method="unmix", num_samples=COUNT, budget_passes=20)
    assert told.forecast.num_samples == COUNT
    assert told.result is None
    assert "not trained by SGD" in told.summary()


def test_the_verdict_is_a_leak_though_the_head_is_below_the_wall(audited):
    assert audited.result.method == "unmix"
    assert audited.forecast.verdict == "labels only"
    assert audited.report.verdict.level is Level.LEAK
    assert (audited.measured["recovered"], audited.measured["certain"]) == (COUNT, COUNT)


def test_summary_and_json_say_that_the_forecast_counts_the_head_only(audited):
    sentence = "The forecast (labels only) counts the head only; the first layer gave the samples away."
    assert sentence in audited.summary()
    assert sentence in audited.to_json()["verdict"]["sentences"]
    assert "The loss fell below its tolerance" not in audited.summary()
    assert "found for every sample" in audited.summary()


def test_the_page_shows_rank_and_zeros_and_what_the_attack_used(audited):
    report = audited.report
    titles = [each.title for each in report.convergence]
    assert titles[:2] == [
        "How many samples moved the first layer",
        "Zeros of the columns, and the inputs that explain them",
    ]
    assert "This counts the head only" in report.law.caption
    assert "labels only, for the head alone" in report.model_card
    known = {each.name: each.value for each in report.assumptions}
    assert "Head before training" not in known
    assert "first layer before training were known" in known["First layer before training"]
    assert "zeros do not tell the samples apart" in known["First layer before training"]
    assert "did not need it" in known["Number of samples"]
