"""Smooth ReLUs: values, first derivatives and second ones, whichever way relu is called."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from exhume.features.smooth_relu import relative_softplus, smooth_slope, softplus
from exhume.networks import MLP, TwoLayer


class Method(nn.Module):
    def forward(self, values):
        return values.relu()


class InPlaceMethod(nn.Module):
    def forward(self, values):
        values = values + 0
        values.relu_()  # what it returns is thrown away
        return values


# Every way to call it.
CALLS = {
    "torch.relu": torch.relu,
    "torch.relu(input=)": lambda values: torch.relu(input=values),
    "functional.relu": functional.relu,
    "functional.relu in place": lambda values: functional.relu(values + 0, inplace=True),
    "functional.relu in place by position": lambda values: functional.relu(values + 0, True),
    "layer": nn.ReLU(),
    "layer in place": nn.Sequential(nn.Identity(), nn.ReLU(inplace=True)),
    "method": Method(),
    "method in place": InPlaceMethod(),
    "torch.relu_": lambda values: torch.relu_(values + 0),
    "exhume's own layer": TwoLayer(3, 4).act,
}


@pytest.fixture
def points():
    return torch.linspace(-1.5, 1.5, 12, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_slope_is_smooth_and_the_value_is_relu_s(call, points):
    with smooth_slope(7.0):
        values = call(points * 1)
    assert torch.equal(values, points.clamp(min=0))
    (slope,) = torch.autograd.grad(values.sum(), points, create_graph=True)
    expected = torch.sigmoid(7.0 * points)
    torch.testing.assert_close(slope, expected, rtol=0, atol=1e-15)
    (bend,) = torch.autograd.grad(slope.sum(), points)
    torch.testing.assert_close(bend, 7.0 * expected * (1 - expected), rtol=1e-12, atol=0)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_softplus_takes_the_place_of_relu(call, points):
    with softplus(7.0):
        values = call(points * 1)
    torch.testing.assert_close(values, torch.log1p(torch.exp(7.0 * points)) / 7.0)
    (slope,) = torch.autograd.grad(values.sum(), points)
    torch.testing.assert_close(slope, torch.sigmoid(7.0 * points))


def test_nothing_is_left_behind_and_other_functions_pass(points):
    with smooth_slope(7.0):
        assert torch.equal(torch.tanh(points), points.tanh())
    (slope,) = torch.autograd.grad(torch.relu(points).sum(), points)
    assert torch.equal(slope, (points > 0).double())


# softplus is one function and its derivatives. With the smooth slope only gradients that do not hold values of relu are
# differentiable as they stand: those of the first of two layers.
CASES = {
    "softplus": (softplus, MLP(5, (6, 7), 2, seed=3).double(), 3),
    "slope": (smooth_slope, TwoLayer(5, 9, 2, seed=3).double(), 1),
}


@pytest.mark.parametrize(("smooth", "network", "layers"), CASES.values(), ids=CASES)
def test_double_backward_is_the_derivative_of_the_smooth_gradient(smooth, network, layers):
    """The gradient in the weights of a network, differentiated in its input, against finite differences."""
    weights = list(network.parameters())[:layers]
    generator = torch.Generator().manual_seed(0)
    row, direction = (torch.randn((1, 5), generator=generator, dtype=torch.float64) for _ in range(2))
    cotangents = [torch.randn(weight.shape, generator=generator).double() for weight in weights]

    def along(inputs):
        with smooth(3.0):
            outputs = network(inputs)
        gradients = torch.autograd.grad(outputs[:, 1].sum(), weights, create_graph=True)
        return sum((gradient * cotangent).sum() for gradient, cotangent in zip(gradients, cotangents, strict=True))

    inputs = row.clone().requires_grad_()
    (derivative,) = torch.autograd.grad(along(inputs), inputs)
    step = 1e-5
    difference = (along(row + step * direction) - along(row - step * direction)) / (2 * step)
    torch.testing.assert_close((derivative * direction).sum(), difference, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("shape", [(3, 5), (3, 1), (3, 2, 4, 4)])
def test_relative_softplus_does_not_depend_on_the_size_of_a_sample(shape):
    values = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sizes = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64).reshape(3, *[1] * (len(shape) - 1))
    with relative_softplus(4.0):
        once, scaled = torch.relu(values), torch.relu(sizes * values)
    assert torch.allclose(scaled, sizes * once, rtol=1e-9, atol=1e-9)
    assert bool((once >= values.relu() - 1e-12).all())
