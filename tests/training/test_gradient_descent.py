"""Training of networks: it fits, stops, resumes bit for bit, reports changed settings, and refuses invalid input."""

import copy

import pytest
import torch

from exhume import data
from exhume.errors import FileError, InputError
from exhume.networks import ResNet, TwoLayer, VisionTransformer
from exhume.support import checkpoint as checkpoints
from exhume.training import losses
from exhume.training.gradient_descent import train


@pytest.fixture(scope="module")
def digits():
    return data.load("digits", samples=4, classes="0,1", labels="sign")


NETWORKS = {
    "two-layer": lambda: TwoLayer(64, 128, 1, seed=1),
    "resnet": lambda: ResNet((1, 8, 8), 8, blocks=2, seed=1),
    "vit": lambda: VisionTransformer((1, 8, 8), 24, 1, depth=1, token_std=0.2, seed=1),
}


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_stable_training_interpolates_and_says_what_it_changed(digits, name):
    network = NETWORKS[name]()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    features = network.features(digits.inputs).detach()
    seen = []
    training = train(
        network,
        digits.inputs,
        digits.labels,
        stable=True,
        max_steps=3000,
        progress=lambda step, total, loss: seen.append((step, total, loss)),
    )
    assert training.converged
    assert training.loss < 1e-7
    assert training.interpolates
    assert training.network is network
    assert not network.training
    fitted = network(digits.inputs)[:, 0].detach()
    assert float((fitted - digits.labels).square().mean()) == pytest.approx(training.loss, rel=0.1, abs=1e-9)
    assert torch.equal(training.initial_head, before["head.weight"])
    assert training.initial_bias is None
    assert training.initial.keys() == before.keys()
    assert all(torch.equal(training.initial[key], before[key]) for key in before)
    after = network.features(digits.inputs).detach()
    assert training.drift == pytest.approx(float((after - features).norm() / after.norm()), rel=1e-3)
    assert 0 < training.drift < 1
    assert training.note.startswith(f"step {training.step_size:.1e} instead of 1e-05")
    assert "times fewer steps" in training.note
    values = [loss for _, _, loss in seen]
    assert values == sorted(values, reverse=True)
    assert (seen[-1][0], seen[-1][1]) == (training.steps, 3000)


def test_stable_step_follows_the_path_of_small_steps(digits):
    network = NETWORKS["two-layer"]()
    quick = train(copy.deepcopy(network), digits.inputs, digits.labels, stable=True)
    slow = train(network, digits.inputs, digits.labels, step_size=quick.step_size / 20)
    assert (slow.note, slow.step_size) == ("", quick.step_size / 20)
    assert slow.steps > 10 * quick.steps
    quick_head, slow_head = quick.network.head.weight.detach(), slow.network.head.weight.detach()
    movement, apart = slow_head - slow.initial_head, quick_head - slow_head
    assert float(apart.norm() / movement.norm()) < 0.03
    assert quick.drift == pytest.approx(slow.drift, rel=0.02)


def test_stable_step_is_never_smaller_than_the_one_asked_for(digits):
    network = NETWORKS["two-layer"]()
    chosen = train(copy.deepcopy(network), digits.inputs, digits.labels, stable=True).step_size
    asked = train(network, digits.inputs, digits.labels, step_size=1.2 * chosen, stable=True)
    assert asked.step_size == 1.2 * chosen
    assert asked.note == ""


@pytest.mark.parametrize("name", ["two-layer", "resnet"])
def test_divergence_names_the_step_size_and_the_way_out(digits, name):
    with pytest.raises(InputError, match=r"diverged with step size 50: .* use a smaller one, and stable"):
        train(NETWORKS[name](), digits.inputs, digits.labels, step_size=50.0)


def test_stable_run_whose_curvature_grows_starts_again_with_half_the_step(digits, monkeypatch):
    monkeypatch.setattr("exhume.training.gradient_descent.stable_step", lambda *_: 50.0)
    training = train(NETWORKS["resnet"](), digits.inputs, digits.labels, stable=True)
    assert training.converged
    assert training.step_size in [50.0 / 2**times for times in range(1, 20)]


def test_limit_of_steps_is_kept_and_is_no_convergence(digits):
    training = train(NETWORKS["two-layer"](), digits.inputs, digits.labels, step_size=1e-3, max_steps=37)
    assert (training.steps, training.converged, training.interpolates) == (37, False, False)
    assert training.loss > 1e-6


def test_loss_without_a_minimum_ends_where_the_small_steps_would(digits):
    labels = (digits.labels > 0).long()
    settings = {"loss": "cross-entropy", "max_steps": 5_000}
    quick = train(TwoLayer(64, 128, 2), digits.inputs, labels, stable=True, **settings)
    slow = train(TwoLayer(64, 128, 2), digits.inputs, labels, **settings)
    assert slow.step_size == 1e-3
    assert quick.steps < slow.steps / 5
    assert quick.steps * quick.step_size == pytest.approx(slow.steps * slow.step_size, rel=0.05)
    assert quick.loss == pytest.approx(slow.loss, rel=0.05)
    assert not quick.interpolates


def test_weight_decay_ends_where_the_penalised_loss_is_stationary(digits):
    network = TwoLayer(64, 128, 1).double()
    training = train(network, digits.inputs, digits.labels, weight_decay=0.2, stable=True)
    assert training.converged
    assert not training.interpolates
    value = losses.get("square").value(network(digits.inputs.double()), digits.labels[:, None].double())
    (gradient,) = torch.autograd.grad(value, network.head.weight)
    penalty = 0.2 * network.head.weight.detach()
    assert float((gradient + penalty).norm()) < 0.02 * float(penalty.norm())
    assert float(training.initial_head.norm()) * training.decay < 0.1
    assert training.decay == pytest.approx((1 - training.step_size * 0.2) ** training.steps)


def test_weight_decay_that_float32_would_round_away_is_refused(digits):
    with pytest.raises(InputError, match="weight decay 0.001 shrinks weights by 1e-08 a step, which float32 rounds"):
        train(NETWORKS["two-layer"](), digits.inputs, digits.labels, weight_decay=1e-3)


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("settings", [{"stable": True}, {"step_size": 2e-3, "weight_decay": 0.01}], ids=str)
@pytest.mark.parametrize("name", ["two-layer", "resnet"])
def test_interrupted_training_resumes_to_the_same_bits(digits, tmp_path, monkeypatch, name, settings):
    monkeypatch.setattr(checkpoints, "EVERY_SECONDS", 0.0)
    settings = {**settings, "max_steps": 95}
    whole = train(NETWORKS[name](), digits.inputs, digits.labels, **settings)
    file = tmp_path / "training.safetensors"

    def interrupt(step, total, loss):
        if step >= 40:
            raise Interrupted

    with pytest.raises(Interrupted):
        train(NETWORKS[name](), digits.inputs, digits.labels, checkpoint=file, progress=interrupt, **settings)
    looks = []
    resumed = train(
        NETWORKS[name](),
        digits.inputs,
        digits.labels,
        checkpoint=file,
        resume=True,
        progress=lambda step, *_: looks.append(step),
        **settings,
    )
    assert looks[0] > 40
    for key in ("steps", "loss", "drift", "note", "step_size", "decay"):
        assert getattr(resumed, key) == getattr(whole, key), key
    for key, weight in whole.network.state_dict().items():
        assert torch.equal(resumed.network.state_dict()[key], weight), key


def test_checkpoint_of_another_training_is_refused(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "EVERY_SECONDS", 0.0)
    file = tmp_path / "training.safetensors"
    settings = {"checkpoint": file, "resume": True, "max_steps": 20}
    train(TwoLayer(64, 128, 1, seed=1), digits.inputs, digits.labels, **settings)
    with pytest.raises(FileError, match="belongs to another run"):
        train(TwoLayer(64, 128, 1, seed=2), digits.inputs, digits.labels, **settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "hinge"}, "unknown loss 'hinge'"),
        ({"step_size": 0.0}, "step_size is 0.0; valid: a positive number"),
        ({"step_size": float("nan")}, "step_size is nan"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"tolerance": -1.0}, "tolerance is -1.0"),
        ({"weight_decay": float("inf")}, "weight_decay is inf"),
        ({"step_size": 1.0, "weight_decay": 2.0}, "step_size \\* weight_decay is 2; valid: below 1"),
        ({"inputs": torch.zeros(4, 63)}, r"inputs of shape \(4, 63\); valid: \(n, 64\)"),
        ({"inputs": torch.full((4, 64), float("nan"))}, "in inputs are NaN or infinite"),
        ({"labels": torch.zeros(3)}, r"labels of shape \(3,\) for 4 inputs"),
        ({"labels": torch.full((4,), float("inf"))}, "in labels are NaN or infinite"),
    ],
)
def test_bad_settings_are_named(digits, change, message):
    settings = {"inputs": digits.inputs, "labels": digits.labels, **change}
    with pytest.raises(InputError, match=message):
        train(NETWORKS["two-layer"](), **settings)
