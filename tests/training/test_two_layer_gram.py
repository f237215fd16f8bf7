"""The Gram form of a two-layer network's training: the same trajectory as plain gradient descent."""

import copy

import pytest
import torch

from exhume.networks import TwoLayer
from exhume.training import losses, two_layer_gram
from exhume.training.trajectory import PlainTrajectory
from exhume.training.two_layer_gram import GramTrajectory

STEPS = 300


def problem(loss="square", activation="relu", width=40, dtype=torch.float64):
    num_outputs = 1 if loss == "logistic" else 3
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn((6, 12), generator=generator, dtype=dtype)
    labels = torch.eye(3, dtype=dtype)[torch.arange(6) % 3]
    if loss == "logistic":
        labels = 2 * labels[:, :1] - 1
    return TwoLayer(12, width, num_outputs, activation, seed=3).to(dtype), inputs, labels


def descend(network, inputs, labels, loss, step_size, weight_decay, steps=STEPS):
    """Plain gradient descent."""
    for _ in range(steps):
        value = losses.get(loss).value(network(inputs), labels)
        gradients = torch.autograd.grad(value, list(network.parameters()))
        with torch.no_grad():
            for weight, gradient in zip(network.parameters(), gradients, strict=True):
                weight -= step_size * (gradient + weight_decay * weight)
    return network


@pytest.mark.parametrize("kind", [GramTrajectory, PlainTrajectory])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
@pytest.mark.parametrize(("loss", "activation"), [("square", "relu"), ("cross-entropy", "relu"), ("logistic", "tanh")])
def test_weights_equal_those_of_plain_gradient_descent(kind, weight_decay, loss, activation):
    network, inputs, labels = problem(loss, activation)
    initial = copy.deepcopy(network)
    trajectory = kind(network, inputs, labels, losses.get(loss), weight_decay)
    trajectory.advance(STEPS, 0.05)
    trajectory.finish()
    plain = descend(copy.deepcopy(initial), inputs, labels, loss, 0.05, weight_decay)
    assert float((plain.first.weight - initial.first.weight).detach().norm()) > 1e-2  # it did move
    torch.testing.assert_close(network.first.weight, plain.first.weight, atol=1e-12, rtol=1e-10)
    torch.testing.assert_close(network.head.weight, plain.head.weight, atol=1e-12, rtol=1e-10)
    torch.testing.assert_close(trajectory.outputs, network(inputs).detach())
    torch.testing.assert_close(trajectory.head(), network.head.weight.detach())
    now, then = network.features(inputs).detach(), initial.features(inputs).detach()
    expected = (now - then).norm() / now.norm()
    assert trajectory.drift() == pytest.approx(float(expected), rel=1e-9)


def test_blocks_change_nothing_and_threads_not_even_a_bit(monkeypatch):
    network, inputs, labels = problem(width=45)
    whole = GramTrajectory(copy.deepcopy(network), inputs, labels, losses.get("square"))
    whole.advance(50, 0.05)
    monkeypatch.setattr(two_layer_gram, "_BLOCK", 6 * 10)
    alone, shared = (GramTrajectory(network, inputs, labels, losses.get("square")) for _ in range(2))
    before = torch.get_num_threads()
    try:
        for trajectory, threads in ((alone, 1), (shared, 2)):
            torch.set_num_threads(threads)
            trajectory.advance(50, 0.05)
    finally:
        torch.set_num_threads(before)
    assert len(alone._blocks) == 5
    for name, tensor in whole.state().items():
        torch.testing.assert_close(alone.state()[name], tensor)
        assert torch.equal(shared.state()[name], alone.state()[name])
    assert alone.drift() == pytest.approx(whole.drift(), rel=1e-9)
    alone.finish()
    torch.testing.assert_close(network(inputs).detach(), whole.outputs)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_tangent_kernel_is_the_jacobian_times_its_transpose(activation):
    network, inputs, labels = problem(activation=activation)
    directions = torch.randn(labels.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    weights = dict(network.named_parameters())
    jacobians = torch.func.jacrev(lambda w: torch.func.functional_call(network, w, (inputs,)))(weights)
    whole = torch.cat([jacobian.reshape(labels.numel(), -1) for jacobian in jacobians.values()], dim=1)
    expected = (whole @ (whole.T @ directions.flatten())).reshape(labels.shape)
    for kind in (GramTrajectory, PlainTrajectory):
        trajectory = kind(network, inputs, labels, losses.get("square"))
        torch.testing.assert_close(trajectory.kernel_times(directions), expected)


def test_small_steps_are_not_lost_in_float32():
    network, inputs, labels = problem(dtype=torch.float32, width=400)
    exact = GramTrajectory(copy.deepcopy(network).double(), inputs.double(), labels.double(), losses.get("square"))
    trajectory = GramTrajectory(copy.deepcopy(network), inputs, labels, losses.get("square"))
    for each in (exact, trajectory):
        each.advance(STEPS, 1e-7)
    moved = exact.state()["movement"]
    assert float((trajectory.state()["movement"] - moved).norm() / moved.norm()) < 1e-4
    initial = network.head.weight.detach().clone()
    naive = descend(network, inputs, labels, "square", 1e-7, 0.0).head.weight.detach() - initial
    assert float((naive - moved).norm() / moved.norm()) > 1e-2
