"""Every network through one suite: shapes, seeds, differentiation in both modes, and a round trip by its config."""

import json
import math

import pytest
import torch

from exhume.errors import InputError
from exhume.networks import MLP, NETWORKS, Conv, ResNet, ResNet18, TwoLayer, VisionTransformer, build

# One row a network: (class, arguments, features that the head reads).
CASES = {
    "two-layer": (TwoLayer, {"input_dim": 12, "width": 20, "num_outputs": 3, "activation": "relu"}, 20),
    "two-layer-tanh": (TwoLayer, {"input_dim": 12, "width": 20, "num_outputs": 1, "activation": "tanh"}, 20),
    "mlp": (MLP, {"input_dim": 12, "hidden": [9, 20], "num_outputs": 3, "first_scale": 0.5}, 20),
    "conv": (Conv, {"image_shape": (2, 5, 5), "channels": 3, "num_outputs": 2, "activation": "gelu"}, 75),
    "conv-pooled": (Conv, {"image_shape": (1, 6, 6), "channels": 4, "pooled": True}, 4),
    "resnet": (ResNet, {"image_shape": (2, 8, 8), "channels": 3, "num_outputs": 2}, 147),
    "resnet18": (ResNet18, {"image_shape": (3, 8, 8), "channels": 2, "num_outputs": 3}, 16),
    "vit": (VisionTransformer, {"image_shape": (3, 8, 8), "width": 12, "num_outputs": 3, "zero_head": False}, 12),
}


@pytest.fixture(params=sorted(CASES))
def case(request):
    kind, arguments, num_features = CASES[request.param]
    return kind(**arguments, seed=1).double(), num_features


def rows_for(network, count=4):
    size = math.prod(network.input_shape)
    return torch.randn((count, size), generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_outputs_are_the_head_of_the_features_for_rows_and_for_pictures(case):
    network, num_features = case
    rows = rows_for(network)
    features = network.features(rows)
    assert features.shape == (4, num_features) == (4, network.num_features)
    torch.testing.assert_close(network(rows), network.head(features))
    torch.testing.assert_close(network(rows.reshape(4, *network.input_shape)), network(rows))
    assert network(rows).shape == (4, network.num_outputs)


def test_forward_and_reverse_differentiation_agree(case):
    network, _ = case
    rows = rows_for(network)
    generator = torch.Generator().manual_seed(1)
    directions = torch.randn(rows.shape, generator=generator, dtype=torch.float64)
    features, moved = torch.func.jvp(network.features, (rows,), (directions,))
    cotangents = torch.randn(features.shape, generator=generator, dtype=torch.float64)
    _, pull = torch.func.vjp(network.features, rows)
    torch.testing.assert_close((moved * cotangents).sum(), (pull(cotangents)[0] * directions).sum())
    step = 1e-6
    difference = (network.features(rows + step * directions) - network.features(rows - step * directions)) / (2 * step)
    torch.testing.assert_close(moved, difference, atol=1e-6, rtol=1e-6)


def test_config_and_state_dict_make_the_network_again(case):
    network, _ = case
    config = json.loads(json.dumps(network.config))
    again = build(network.name, config, seed=99).double()
    assert again.config == network.config
    rows = rows_for(network)
    assert not torch.equal(again(rows), network(rows))
    again.load_state_dict(network.state_dict())
    torch.testing.assert_close(again(rows), network(rows))


def test_weights_depend_on_the_seed_alone(case):
    network, _ = case
    torch.manual_seed(5)
    before = torch.get_rng_state()
    same, other = (build(network.name, network.config, seed=seed).double() for seed in (1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(mine, its) for mine, its in zip(network.parameters(), same.parameters(), strict=True))
    assert not torch.equal(network.head.weight, other.head.weight)


def test_inputs_of_another_size_are_refused(case):
    network, _ = case
    with pytest.raises(InputError, match=r"inputs of shape \(2, 5\) do not fit"):
        network(torch.zeros(2, 5, dtype=torch.float64))


def test_registry_lists_every_network():
    assert sorted(NETWORKS) == ["conv", "mlp", "resnet", "resnet18", "two-layer", "vit"]
    with pytest.raises(InputError, match="unknown network 'lstm'; valid: conv, mlp, resnet, resnet18, two-layer, vit"):
        build("lstm", {})


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("two-layer", {"input_dim": 3, "width": 4, "depth": 2}, "two-layer has no setting depth; valid: input_dim"),
        ("two-layer", {"input_dim": 3}, "two-layer needs width"),
        ("two-layer", {"input_dim": 3, "width": "many"}, "width is 'many'; valid: a whole number"),
        ("two-layer", {"input_dim": 3, "width": 4, "activation": "swish"}, "unknown activation 'swish'"),
        ("mlp", {"input_dim": 3, "hidden": []}, "hidden is empty; valid: at least one width"),
        ("mlp", {"input_dim": 3, "hidden": [4, 0]}, "hidden is 0; valid: a whole number"),
        ("mlp", {"input_dim": 3, "first_scale": 0}, "first_scale is 0; valid: a positive number"),
        ("resnet", {"image_shape": (3, 8, 9), "channels": 4}, r"image_shape is \(3, 8, 9\); valid: \(channels"),
        ("resnet", {"image_shape": (3, 4, 4), "channels": 4}, "side of at least 5"),
        ("resnet", {"image_shape": (3, 8, 8), "channels": 0}, "channels is 0"),
        ("vit", {"image_shape": (3, 8, 8), "width": 12, "patch": 3}, "patch is 3; valid: a divisor of 8"),
        ("vit", {"image_shape": (3, 8, 8), "width": 12, "num_heads": 5}, "num_heads is 5; valid: a divisor of 12"),
        ("vit", {"image_shape": (3, 8, 8), "width": 12, "token_std": 0.0}, "token_std is 0.0; valid: a positive"),
        ("vit", {"image_shape": 8, "width": 12}, "image_shape is 8"),
        ("vit", {"image_shape": (3, 8, 8), "width": 12, "zero_head": "no"}, "zero_head is 'no'; valid: true or false"),
    ],
)
def test_bad_configs_are_named(name, config, message):
    with pytest.raises(InputError, match=message):
        build(name, config)
