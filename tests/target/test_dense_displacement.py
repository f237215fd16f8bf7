"""The rank of a first layer's displacement, read off rounded and decayed weights."""

import pytest
import torch
from torch import nn

from exhume.support.rounding_grid import rounding_noise
from exhume.target.dense_displacement import dense_displacement
from exhume.target.network_weights import NetworkWeights

HEIGHT, WIDTH, SAMPLES = 120, 40, 6


def to_integers(weights):
    """Eight-bit integers with one step a row, as quantised models have them."""
    step = weights.abs().amax(1, keepdim=True) / 127
    return (weights / step).round() * step


ROUNDINGS = {
    "bfloat16": lambda weights: weights.bfloat16().float(),
    "float16": lambda weights: weights.half().float(),
    "int8": to_integers,
}


def layer(sizes, share=1.0, rounding=None):
    """A network whose first layer moved by samples of the given sizes, with the share of its start that is left."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, HEIGHT), nn.ReLU(), nn.Linear(HEIGHT, 3))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    left = torch.linalg.qr(torch.randn(HEIGHT, SAMPLES))[0]
    right = torch.linalg.qr(torch.randn(WIDTH + 1, SAMPLES))[0]
    moved = (left * torch.tensor(sizes)) @ right.T
    with torch.no_grad():
        weight = share * model[0].weight + moved[:, :-1]
        bias = share * model[0].bias + moved[:, -1]
        model[0].weight.copy_(weight if rounding is None else rounding(weight))
        model[0].bias.copy_(bias if rounding is None else rounding(bias[:, None])[:, 0])
    return NetworkWeights(model.eval(), "2", tuple(before), before)


@pytest.mark.parametrize("name", ROUNDINGS)
def test_the_rounding_of_released_weights_is_recognised_with_its_size(name):
    weights = torch.randn((80, 300), generator=torch.Generator().manual_seed(0)).double() / 10
    rounded = ROUNDINGS[name](weights.float()).double()
    assert rounding_noise(rounded) == pytest.approx(float((rounded - weights).std()), rel=0.1)
    assert rounding_noise(weights.float().double()) is None


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_samples_of_very_different_sizes_are_all_counted_in_rounded_weights(name):
    # The singular values fall by 20 in their midst, and by less than that behind the last.
    edge = {"bfloat16": 2.5e-3, "float16": 3.2e-4}[name]
    sizes = [200 * edge, 180 * edge, 160 * edge, 8 * edge, 7 * edge, 6 * edge]
    assert dense_displacement(layer(sizes, rounding=ROUNDINGS[name]), (WIDTH,)).spectrum.rank == SAMPLES


@pytest.mark.parametrize("name", [None, "float16"])
def test_a_slow_decay_is_not_taken_for_noise_behind_the_samples(name):
    moved = dense_displacement(layer([1.0] * SAMPLES, share=0.995, rounding=ROUNDINGS.get(name)), (WIDTH,))
    assert moved.share == pytest.approx(0.995, abs=1e-7 if name is None else 1e-4)
    assert moved.spectrum.rank == SAMPLES


def test_without_decay_the_share_is_one():
    assert dense_displacement(layer([1.0] * SAMPLES), (WIDTH,)).share == 1
