"""Which attacks are tried, within which budget, and which result counts."""

from dataclasses import replace

import pytest
import torch
from auditing_models import DIM, SAMPLES, probe
from torch import nn

import exhume
from exhume.attacks import fitting
from exhume.auditing import Settings
from exhume.auditing.attempts import Attempt, attempt, best
from exhume.networks import TwoLayer


@pytest.fixture(scope="module")
def target():
    model, _ = probe()
    known = exhume.Knowledge(num_samples=SAMPLES)
    return exhume.Target.last_layer(model, initial_head="zero", input_shape=(DIM,), knowledge=known)


def settings(**values):
    return Settings(model="m.py:build", **values)


def test_the_exact_attack_is_tried_where_nothing_is_known_of_the_body(target):
    assert fitting(target) == ("exact",)


def test_the_first_layer_is_tried_first_where_the_initial_body_or_a_subspace_is_known(target):
    network = TwoLayer(DIM, 50, 2, seed=0)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    with torch.no_grad():
        network.head.weight.add_(0.1)
    moved = exhume.Target.last_layer(network.eval(), initial_head=before, input_shape=(DIM,))
    assert fitting(moved) == ("unmix", "subspace", "exact")
    assert fitting(target.assuming(subspace=torch.eye(DIM)[:5])) == ("subspace", "exact")


def convolutional():
    """A target whose first layer is a convolution, all initial weights known."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 2))
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.01 * torch.randn_like(weight))
    known = exhume.Knowledge(num_samples=1)
    return exhume.Target.network(network.eval(), initial=before, input_shape=(1, 6, 6), knowledge=known)


def test_all_layers_are_tried_last_where_the_first_is_not_dense_and_get_half_of_what_is_left():
    target = convolutional()
    assert fitting(target) == ("subspace", "exact", "layers")
    subspace, exact, layers = attempt(target, settings(budget_passes=400))
    assert subspace.result is None
    assert exact.result.max_passes == 200
    assert layers.result.max_passes == pytest.approx(400 - exact.result.passes)


def test_a_result_that_is_good_ends_the_attempts(target):
    tried = attempt(target.assuming(subspace=torch.eye(DIM)), settings())
    assert [each.method for each in tried] == ["subspace"]
    assert tried[0].result.certificate.verdict == "exact"


def test_an_attack_that_does_not_fit_says_why_and_is_followed_by_the_next(target, monkeypatch):
    monkeypatch.setattr("exhume.attacks.fitting", lambda _: ("subspace", "exact"))
    first, second = attempt(target, settings())
    assert first.result is None
    assert first.reason
    assert second.result.certificate.verdict == "exact"


def test_one_budget_is_shared_by_all_attempts(target, monkeypatch):
    monkeypatch.setattr("exhume.attacks.fitting", lambda _: ("descent", "exact"))
    first, second = attempt(target, settings(budget_passes=10))
    assert first.result.stop is exhume.Stop.PASS_LIMIT
    assert second.result is None
    assert "budget was spent" in second.reason


def test_the_best_certificate_counts(target):
    result = attempt(target, settings())[0].result

    def with_certificate(**values):
        return Attempt("exact", replace(result, certificate=replace(result.certificate, **values)))

    exact = with_certificate(verdict="exact", predicted_errors=(1e-6,))
    rough = with_certificate(verdict="approximate", predicted_errors=(0.2,))
    better = with_certificate(verdict="approximate", predicted_errors=(0.1,))
    failed = with_certificate(verdict="failed", predicted_errors=(), residual=0.5)
    closer = with_certificate(verdict="failed", predicted_errors=(), residual=0.1)
    order = [exact, better, rough, closer, failed]
    for place, expected in enumerate(order):
        assert best([Attempt("kkt", reason="no"), *reversed(order[place:])]) is expected.result
    assert best([Attempt("kkt", reason="no")]) is None
