"""The public part of a trained network: the span equation holds for the true data, up to drift."""

import pytest
import torch

from exhume import data
from exhume.networks import TwoLayer, VisionTransformer
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target
from exhume.victims import train
from exhume.victims.trained_network import network_for, target


@pytest.fixture(scope="module")
def digits():
    return data.load("digits", samples=4)


def residual(public, inputs):
    """The relative distance of the displacement from the span of the features of the inputs."""
    features = public.feature_map.forward(inputs).double()
    basis = torch.linalg.qr(features.T)[0]
    displacement = public.displacement.double().T
    return float((displacement - basis @ (basis.T @ displacement)).norm() / displacement.norm())


def test_displacement_of_a_wide_network_is_in_the_span_of_its_features(digits):
    training = train(TwoLayer(64, 2000, 1), digits.inputs, digits.labels, stable=True)
    public = target(training, input_shape=(1, 8, 8), knowledge=Knowledge(num_samples=4))
    assert isinstance(public, Target)
    assert public.input_shape == (1, 8, 8)
    assert public.knowledge.num_samples == 4
    assert torch.equal(public.displacement, training.network.head.weight.detach() - training.initial_head)
    assert training.drift < 0.02
    assert residual(public, digits.inputs) < 0.02
    assert residual(public, digits.non_members) > 0.3


def test_what_weight_decay_leaves_of_the_initial_head_is_taken_off(digits):
    network = TwoLayer(64, 2000, 1).double()
    training = train(network, digits.inputs, digits.labels, weight_decay=0.2, stable=True, max_steps=3000)
    assert 0.5 < training.decay < 0.9
    public = target(training)
    assert residual(public, digits.inputs) < 0.02
    whole = Target.last_layer(network, "head", initial_head=training.initial_head, input_shape=(64,))
    assert residual(whole, digits.inputs) > 0.5


def test_a_head_with_a_bias_hands_its_initial_bias_over(digits):
    network = VisionTransformer((1, 8, 8), 24, 1, depth=1, token_std=0.2, head_bias=True)
    training = train(network, digits.inputs, digits.labels, stable=True, max_steps=50)
    assert training.initial_bias is not None
    assert not training.initial_bias.any()
    public = target(training)
    assert public.displacement.shape == (1, 25)


@pytest.mark.parametrize(("pooled", "channels"), [(False, 2), (True, 128)])
def test_channels_of_convolutions_give_the_head_as_many_features_as_asked_for(digits, pooled, channels):
    shape, settings = (1, 8, 8), {"pooled": pooled}
    made = network_for(
        "conv", digits.inputs, digits.labels, image_shape=shape, features=128.0, settings=settings, seed=0
    )
    assert (made.channels, made.num_features) == (channels, 128)
