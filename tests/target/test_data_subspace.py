"""The subspace of the data computed from the first layer's displacement, and the cases in which there is none."""

import pytest
import torch
from torch import nn

import exhume
from exhume import data
from exhume.errors import InputError
from exhume.networks import TwoLayer
from exhume.target import data_subspace as subspaces
from exhume.target.network_weights import NetworkWeights
from exhume.victims import train
from exhume.victims.trained_network import target


@pytest.fixture(scope="module")
def digits():
    return data.load("digits", samples=6, labels="one-hot")


def generator():
    return torch.Generator().manual_seed(0)


def outside(inputs, basis):
    """The share of the inputs that lies outside."""
    rows = inputs.double()
    basis = basis.double()
    return float((rows - rows @ basis.T @ basis).norm() / rows.norm())


def trained_target(digits, **options):
    trained = train(TwoLayer(64, 100, 10, seed=1), digits.inputs, digits.labels, stable=True, **options)
    return trained, target(trained)


def test_first_layer_shows_the_span_and_the_number_of_samples(digits):
    _, public = trained_target(digits)
    space = subspaces.from_first_layer(public.known_model, (64,), generator())
    assert (space.dim, space.num_samples, space.source) == (6, 6, "first-layer")
    assert outside(digits.inputs, space.basis) < 1e-5
    assert torch.allclose(space.basis @ space.basis.T, torch.eye(6), atol=1e-5)
    assert space.spectrum[5] > 1e4 * space.spectrum[6]
    assert "6 of 64" in space.sentence


def test_weight_decay_leaves_a_share_of_the_initial_weights_which_is_found(digits):
    trained, _ = trained_target(digits, weight_decay=1e-3, max_steps=3000)
    assert trained.decay < 0.95
    public = exhume.Target.last_layer(trained.network, "head", initial_head=trained.initial, input_shape=(64,))
    space = subspaces.from_first_layer(public.known_model, (64,), generator())
    assert space.num_samples == 6
    assert outside(digits.inputs, space.basis) < 1e-3


def test_decay_that_has_won_shows_the_span_without_any_initial_weights(digits):
    trained, public = trained_target(digits, weight_decay=0.1, max_steps=6000)
    assert trained.decay < 1e-6
    blind = public.assuming(initial_body="unknown")
    space = subspaces.from_first_layer(blind.known_model, (64,), generator())
    assert space.num_samples == 6
    assert outside(digits.inputs, space.basis) < 1e-5


def test_unknown_initial_weights_show_nothing_and_say_so(digits):
    _, public = trained_target(digits)
    with pytest.raises(InputError, match="initial weights are not known.*'first'.*100 x 64.*give a subspace"):
        subspaces.from_first_layer(public.assuming(initial_body="unknown").known_model, (64,), generator())


def conv_target(digits, channels, kernel):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, channels, kernel, bias=False),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, 10),
    )
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.mse_loss(model(digits.inputs[:2].reshape(-1, 1, 8, 8)), digits.labels[:2]).backward()
        optimiser.step()
    return exhume.Target.last_layer(model.eval(), "4", initial_head=before, input_shape=(1, 8, 8))


def test_patches_of_a_convolution_show_the_span_of_the_inputs(digits):
    public = conv_target(digits, channels=60, kernel=6)  # 9 patches a sample, of 36 numbers
    space = subspaces.from_first_layer(public.known_model, (1, 8, 8), generator())
    assert outside(digits.inputs[:2], space.basis) < 1e-3
    assert space.num_samples == space.dim < 20


def test_small_kernels_show_nothing_and_say_so(digits):
    public = conv_target(digits, channels=60, kernel=3)  # 36 patches a sample, of 9 numbers
    with pytest.raises(InputError, match="show no rank.*patches of all samples"):
        subspaces.from_first_layer(public.known_model, (1, 8, 8), generator())


def test_a_first_layer_that_was_frozen_is_refused_for_that_reason():
    model = nn.Sequential(nn.Linear(8, 20), nn.ReLU(), nn.Linear(20, 2)).eval()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    nn.init.ones_(model[2].weight)
    public = exhume.Target.last_layer(model, initial_head=before, input_shape=(8,))
    with pytest.raises(InputError, match="the first layer '0' did not move in training"):
        subspaces.from_first_layer(public.known_model, (8,), generator())


def test_a_network_that_normalises_first_is_refused():
    model = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 30), nn.GELU(), nn.Linear(30, 2)).eval()
    with pytest.raises(InputError, match="no linear layer or convolution of Sequential is given the input itself"):
        subspaces.from_first_layer(NetworkWeights(model, "3", ()), (8,), generator())


def test_given_rows_are_made_orthonormal_and_repeated_ones_dropped():
    rows = torch.tensor([[2.0, 0, 0], [2.0, 2.0, 0], [4.0, 2.0, 0]])
    space = subspaces.given(rows)
    assert (space.dim, space.num_samples, space.source) == (2, None, "given")
    assert outside(rows, space.basis) < 1e-6
