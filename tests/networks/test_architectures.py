"""Properties of single architectures: initial variances, map sizes, tokens, options."""

import math

import pytest
import torch

from exhume.networks import MLP, ResNet, TwoLayer, VisionTransformer


def assert_variance(weights, expected):
    """Within five standard errors of the variance of that many Gaussian numbers."""
    weights = weights.detach()
    assert abs(float(weights.var()) / expected - 1) < 5 * math.sqrt(2 / weights.numel())
    assert abs(float(weights.mean())) < 5 * math.sqrt(expected / weights.numel())


def test_two_layer_variances_and_formula():
    network = TwoLayer(50, 400, 10)
    assert_variance(network.first.weight, 1 / 50)
    assert_variance(network.head.weight, 1 / 400)
    rows = torch.randn((3, 50), generator=torch.Generator().manual_seed(0))
    expected = (rows @ network.first.weight.T).clamp(min=0) @ network.head.weight.T
    torch.testing.assert_close(network(rows), expected)
    assert [name for name, _ in network.named_parameters()] == ["first.weight", "head.weight"]


def test_mlp_variances_and_formula():
    network = MLP(50, (200, 300), 4, first_scale=0.1)
    first, second = network.layers
    assert_variance(first.weight, 0.1**2 / 50)
    assert_variance(second.weight, 1 / 200)
    assert_variance(network.head.weight, 1 / 300)
    rows = torch.randn((3, 50), generator=torch.Generator().manual_seed(0))
    expected = ((rows @ first.weight.T).relu() @ second.weight.T).relu() @ network.head.weight.T
    torch.testing.assert_close(network(rows), expected)
    torch.testing.assert_close(network(2 * rows), 2 * network(rows))
    assert MLP(50, 7).hidden == (7, 7)


def test_resnet_variances():
    network = ResNet((3, 16, 16), 12)
    assert_variance(network.stem.weight, 1 / (3 * 16 * 16))
    for block in network.blocks:
        for layer in (block.inner, block.outer):
            assert layer.bias is None
            assert_variance(layer.weight, 1 / (12 * 9))
    assert_variance(network.head.weight, 1 / (12 * 49))


@pytest.mark.parametrize("side", [5, 8, 16, 28, 32, 64])
def test_resnet_stem_makes_seven_by_seven_maps_of_any_square_image(side):
    network = ResNet((3, side, side), 2)
    assert network.stem.kernel_size == (side - 4, side - 4)
    assert network.stem(torch.zeros(1, 3, side, side)).shape == (1, 2, 7, 7)
    assert network.num_features == 98


def test_resnet_follows_the_formula_and_the_stem_relu_is_an_option():
    plain, rectified = (ResNet((1, 8, 8), 4, stem_relu=choice) for choice in (False, True))
    images = torch.randn((2, 1, 8, 8), generator=torch.Generator().manual_seed(0))
    stem = plain.stem(images)
    assert bool((stem < 0).any())
    torch.testing.assert_close(plain(images), plain.head(plain.blocks(stem).flatten(1)))
    torch.testing.assert_close(rectified(images), plain.head(plain.blocks(stem.relu()).flatten(1)))
    block = plain.blocks[0]
    torch.testing.assert_close(block(stem), (stem + block.outer(block.inner(stem).relu())).relu())


@pytest.mark.parametrize(("num_features", "channels"), [(49, 1), (97, 1), (98, 2), (10, 1), (122880, 2507)])
def test_resnet_channels_are_truncated_as_in_the_paper(num_features, channels):
    assert ResNet.channels_for(num_features) == channels


def test_vit_variances():
    network = VisionTransformer((3, 32, 32), 48, 5, zero_head=False)
    assert_variance(network.embedding.weight, 1 / (3 * 16 * 16))
    for block in network.blocks:
        assert_variance(block.attention.queries_keys_values.weight, 1 / 48)
        assert_variance(block.attention.output.weight, 1 / 48)
        assert_variance(block.widen.weight, 1 / 48)
        assert_variance(block.narrow.weight, 1 / (4 * 48))
        assert not block.widen.bias.any()
    assert_variance(network.head.weight, 1 / 48)
    assert_variance(network.positions, 0.3**2)
    assert not VisionTransformer((3, 32, 32), 48, 5).head.weight.any()
    assert network.head.bias is None


@pytest.mark.parametrize(
    ("side", "width", "patch", "heads"), [(32, 768, 16, 12), (64, 50, 16, 10), (8, 7, 4, 7), (7, 13, 1, 1)]
)
def test_vit_defaults_fit_every_side_and_width(side, width, patch, heads):
    network = VisionTransformer((1, side, side), width, depth=1)
    assert (network.patch, network.num_heads) == (patch, heads)
    assert network.positions.shape == (1, (side // patch) ** 2 + 1, width)
    assert network(torch.zeros(1, side * side)).shape == (1, 1)


def test_vit_attention_equals_torch_s_own():
    network = VisionTransformer((1, 8, 8), 12, num_heads=3).double()
    attention = network.blocks[0].attention
    tokens = torch.randn((2, 5, 12), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    own = torch.nn.MultiheadAttention(12, 3, batch_first=True).double()
    own.in_proj_weight.data.copy_(attention.queries_keys_values.weight)
    own.in_proj_bias.data.copy_(attention.queries_keys_values.bias)
    own.out_proj.load_state_dict(attention.output.state_dict())
    torch.testing.assert_close(attention(tokens), own(tokens, tokens, tokens)[0])
