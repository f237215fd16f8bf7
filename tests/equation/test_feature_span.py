"""Feature spans: training samples lie in the row spaces of layers, others do not; derivatives are exact."""

import pytest
import torch
from torch import nn

from exhume import data
from exhume.equation.feature_span import FeatureSpans
from exhume.equation.trained_network import TrainedNetwork
from exhume.target.network_weights import NetworkWeights

DIGITS = data.load("digits", samples=12).inputs.double()
SAMPLES, OTHERS = DIGITS[:4], DIGITS[4:]


def trained():
    """Two convolutions and two dense layers, trained on four digits; the second convolution has four positions."""
    torch.manual_seed(0)
    convolutions = [nn.Conv2d(1, 16, 3, 2, 1), nn.Tanh(), nn.Conv2d(16, 48, 3, 2, 1), nn.Tanh()]
    module = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(192, 24), nn.Tanh(), nn.Linear(24, 3)).double()
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    optimiser = torch.optim.SGD(module.parameters(), 0.02)
    for _ in range(20):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(SAMPLES.reshape(-1, 1, 8, 8)), torch.tensor([0, 1, 2, 0])).backward()
        optimiser.step()
    names = tuple(before)
    return TrainedNetwork(NetworkWeights(module, "7", names, before), (1, 8, 8), torch.float64), names


@pytest.fixture(scope="module")
def spans():
    return FeatureSpans(*trained(), num_samples=4)


def nothing(spans):
    """No patches are explained."""
    return {name: torch.zeros((len(layer.basis),) * 2).double() for name, layer in spans.layers.items()}


def test_layers_that_the_patches_of_all_samples_fill_are_left_out(spans):
    assert list(spans.layers) == ["2", "5"]  # the first has 16 positions and 9 inputs, the head 3 outputs
    assert list(FeatureSpans(*trained(), num_samples=15).layers) == ["5"]
    assert list(FeatureSpans(*trained(), num_samples=24).layers) == []


def test_only_layers_whose_initial_weights_are_known_are_read():
    network, _ = trained()
    assert list(FeatureSpans(network, ("5.weight", "7.weight"), 4).layers) == ["5"]


def test_patches_are_what_the_layers_multiply_their_weights_with(spans):
    patches, outputs = spans.patches(SAMPLES)
    middle = spans._network.straight((0.5,))[0]
    module = spans._network.module
    at = torch.func.functional_call(
        module[:2], {n: middle[n] for n in ("0.weight", "0.bias")}, SAMPLES[:, None].reshape(-1, 1, 8, 8)
    )
    maps = nn.functional.conv2d(at, middle["2.weight"], stride=2, padding=1)
    products = patches["2"] @ middle["2.weight"].flatten(1).T
    torch.testing.assert_close(products.transpose(1, 2).reshape(maps.shape), maps)
    assert outputs.shape == (4, 3)


def test_shares_are_those_of_a_dense_projection(spans):
    patches = spans.patches(DIGITS)[0]
    shares = spans.outside(patches, nothing(spans))
    for place, name in enumerate(spans.layers):
        change = spans._network.after[f"{name}.weight"] - spans._network.before[f"{name}.weight"]
        change = change.flatten(1)
        squares = change.T @ change
        cut = 1e-6 * torch.linalg.matrix_norm(change, 2) ** 2
        projector = squares @ torch.linalg.inv(squares + cut * torch.eye(len(squares)))
        out = (patches[name] - patches[name] @ projector).square().sum((1, 2))
        inside = (patches[name] @ projector * patches[name]).sum((1, 2))
        torch.testing.assert_close(shares[place], out / (out + inside), rtol=1e-5, atol=1e-9)


def test_training_samples_lie_in_the_spans_and_others_do_not(spans):
    shares = spans.outside(spans.patches(DIGITS)[0], nothing(spans)).sqrt()
    assert float(shares[:, :4].max()) < 0.5 * float(shares[:, 4:].min())


def test_all_samples_together_cover_the_spans_and_fewer_do_not(spans):
    whole = spans.coverage(spans.patches(SAMPLES)[0])
    assert bool((whole < 0.5 * spans.coverage(spans.patches(SAMPLES[:3])[0])).all())
    assert bool((whole < 0.5 * spans.coverage(spans.patches(OTHERS[:4])[0])).all())


def test_a_sample_that_was_found_is_no_longer_inside(spans):
    patches = spans.patches(SAMPLES)[0]
    explained = spans.explained({name: each[:1] for name, each in patches.items()})
    before, after = spans.outside(patches, nothing(spans)), spans.outside(patches, explained)
    assert bool((after[:, 0] > 10 * before[:, 0]).all())
    assert bool((after[:, 1:] < 3 * before[:, 1:]).all())


def test_derivatives_agree_with_differences(spans):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn((2, 64), generator=generator, dtype=torch.float64).requires_grad_()
    along = torch.randn(rows.shape, generator=generator, dtype=torch.float64)
    explained = spans.explained(spans.patches(SAMPLES[:1])[0])

    def value(at):
        patches = spans.patches(at)[0]
        return spans.outside(patches, explained).log().sum() + spans.coverage(spans.patches(at)[0]).log().sum()

    slope = (torch.autograd.grad(value(rows), rows)[0] * along).sum()
    with torch.no_grad():
        difference = (value(rows + 1e-6 * along) - value(rows - 1e-6 * along)) / 2e-6
    # Coverage treats the scale of all patches together as a constant: it cancels in the value but for the ridge.
    torch.testing.assert_close(slope, difference, rtol=1e-2, atol=1e-4)
