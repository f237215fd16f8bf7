"""The search in feature spans, which `layers` makes where the path equation does not fit into memory."""

import pytest
import torch
from torch import nn

import exhume
from exhume import data
from exhume.attacks._base.problem import Problem
from exhume.attacks._search import on_paths
from exhume.attacks._search.feature_spans.prior import Prior
from exhume.errors import InputError
from exhume.report.key_figures import layers_table
from exhume.support import checkpoint

DIGITS = data.load("digits", samples=60).inputs
SAMPLES, PUBLIC = DIGITS[:3], DIGITS[10:]


def target(**knowledge):
    """Two convolutions and two dense layers, trained on three digits."""
    torch.manual_seed(0)
    convolutions = [nn.Conv2d(1, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU()]
    module = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 3))
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    optimiser = torch.optim.SGD(module.parameters(), 0.01)
    for _ in range(20):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(SAMPLES.reshape(-1, 1, 8, 8)), torch.tensor([0, 1, 2])).backward()
        optimiser.step()
    known = exhume.Knowledge(num_samples=3, **knowledge)
    return exhume.Target.network(module.eval(), initial=before, input_shape=(1, 8, 8), knowledge=known)


@pytest.mark.parametrize("public", [PUBLIC, None])
def test_samples_are_found_one_by_one_and_none_is_certified(public, monkeypatch):
    monkeypatch.setattr(on_paths, "MEMORY_BUDGET", 0)
    result = exhume.Layers()(target(public=public))
    cosines = torch.cosine_similarity(SAMPLES[:, None], result.samples[None], dim=2)
    assert sorted(cosines.argmax(1).tolist()) == [0, 1, 2]
    assert float(cosines.max(1).values.min()) > 0.9
    assert result.certificate.verdict == "failed"
    assert result.certificate.predicted_errors == ()
    assert result.evidence["layers"] == ["2", "5"]
    (table,) = layers_table(result)
    assert (table.title, table.columns, table.rows) == (
        "Layers whose row spaces candidates were compared with",
        ("Layer",),
        (("2",), ("5",)),
    )
    assert "equation" not in table.caption


def test_a_known_sample_is_not_found_again(monkeypatch):
    monkeypatch.setattr(on_paths, "MEMORY_BUDGET", 0)
    result = exhume.Layers()(target(samples=SAMPLES[:1], public=PUBLIC))
    cosines = torch.cosine_similarity(SAMPLES[:, None], result.samples[None], dim=2).max(1).values
    assert len(result.samples) == 2
    assert float(cosines[1:].min()) > 0.9 > float(cosines[0])


def test_a_spent_budget_still_gives_what_was_found(monkeypatch):
    monkeypatch.setattr(on_paths, "MEMORY_BUDGET", 0)
    result = exhume.Layers()(target(public=PUBLIC), max_passes=200)
    assert result.stop is exhume.Stop.PASS_LIMIT
    cosines = torch.cosine_similarity(SAMPLES[:, None], result.samples[None], dim=2)
    assert float(cosines.max(0).values.min()) > 0.5


def test_a_row_that_was_not_accepted_does_not_count_as_found(monkeypatch):
    monkeypatch.setattr(on_paths, "MEMORY_BUDGET", 0)
    result = exhume.Layers()(target(public=PUBLIC), max_passes=1)
    assert len(result.samples) == 1
    assert result.evidence["found"] == 0
    assert "0 of 3 samples were found" in result.certificate.reason
    assert "was not accepted" in result.certificate.reason


def test_a_run_that_is_cut_goes_on_to_the_same_samples(monkeypatch, tmp_path):
    monkeypatch.setattr(on_paths, "MEMORY_BUDGET", 0)
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    one, path = target(public=PUBLIC), tmp_path / "checkpoint"

    def cut(event):
        if event.step == 1:
            raise KeyboardInterrupt

    whole = exhume.Layers()(one)
    with pytest.raises(KeyboardInterrupt):
        exhume.Layers()(one, checkpoint=path, progress=cut)
    resumed = exhume.Layers()(one, checkpoint=path, resume=True)
    torch.testing.assert_close(resumed.samples, whole.samples)
    assert resumed.steps == whole.steps > 1


def test_networks_without_a_layer_for_all_patches_are_refused(monkeypatch):
    monkeypatch.setattr(on_paths, "MEMORY_BUDGET", 0)
    with pytest.raises(InputError, match="samples times positions exceed its inputs or outputs everywhere"):
        exhume.Layers()(target().assuming(num_samples=64))


def test_the_prior_of_public_samples_has_their_mean_and_variances():
    one = target(public=PUBLIC)
    prior = Prior.of(Problem(one, one.features, 3))
    drawn = prior.rows(torch.randn((4000, 64), generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(drawn.mean(0), PUBLIC.mean(0), atol=0.1, rtol=0)
    total = float((PUBLIC - PUBLIC.mean(0)).square().sum(1).mean())
    assert float((drawn - prior.mean).square().sum(1).mean()) == pytest.approx(total, rel=0.2)
    torch.testing.assert_close(prior.rows(prior.white(SAMPLES)), SAMPLES, atol=1e-4, rtol=1e-4)


def test_without_public_samples_the_prior_is_smooth_and_of_the_usual_norm():
    one = target()
    prior = Prior.of(Problem(one, one.features, 3))
    drawn = prior.rows(torch.randn((2000, 64), generator=torch.Generator().manual_seed(0)))
    assert float(drawn.square().sum(1).mean()) == pytest.approx(64, rel=0.1)
    pictures = drawn.reshape(-1, 8, 8)
    assert float((pictures[:, 1:] - pictures[:, :-1]).square().mean()) < float(pictures.square().mean())
