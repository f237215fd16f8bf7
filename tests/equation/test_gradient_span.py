"""The unified equation against dense Jacobians, finite differences and weights that are made to satisfy it."""

import pytest
import torch
from torch import nn

from exhume import data
from exhume.attacks.kkt import margin_coefficients
from exhume.equation.gradient_span import GradientSpan
from exhume.equation.parameters import count_equations
from exhume.errors import InputError
from exhume.features.smooth_relu import softplus
from exhume.networks import MLP, ResNet, VisionTransformer
from exhume.target.target import Target
from exhume.victims import RandomFeatures


def rows(count, size, seed=0):
    return torch.randn((count, size), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def network():
    return MLP(5, (7, 6), 2, "gelu", seed=1).double().eval()


@pytest.fixture
def initial(network):
    other = MLP(5, (7, 6), 2, "gelu", seed=2).double()
    return {name: weight.detach().clone() for name, weight in other.named_parameters()}


@pytest.fixture
def target(network, initial):
    return Target.last_layer(network, initial_head=initial, input_shape=(5,))


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ("all", ["layers.0.weight", "layers.1.weight", "head.weight"]),
        ("head", ["head.weight"]),
        ("first", ["layers.0.weight"]),
        ("body", ["layers.0.weight", "layers.1.weight"]),
        (["layers.1.weight"], ["layers.1.weight"]),
        ("layers.1.weight", ["layers.1.weight"]),
    ],
)
@pytest.mark.parametrize("at", ["trained", "initial", "midpoint"])
def test_combination_is_that_of_dense_jacobians_at_the_point(target, network, initial, parameters, names, at):
    span = GradientSpan(target, parameters, at=at)
    assert list(span.names) == names
    weights = dict(network.named_parameters())
    back = {"trained": 0.0, "midpoint": 0.5, "initial": 1.0}[at]
    point = {name: (1 - back) * weight.detach() + back * initial[name] for name, weight in weights.items()}
    samples, coefficients = rows(3, 5), rows(3, 2, seed=1)

    def outputs(chosen):
        return torch.func.functional_call(network, point | chosen, (samples,))

    jacobians = torch.func.jacrev(outputs)({name: point[name] for name in names})  # (3, 2, *shape) each
    for name, found, goal in zip(names, span.combination(samples, coefficients), span.rhs, strict=True):
        expected = torch.einsum("mk,mk...->...", coefficients, jacobians[name])
        torch.testing.assert_close(found.detach(), expected)
        torch.testing.assert_close(goal, weights[name].detach() - initial[name])
    assert span.num_equations == sum(weights[name].numel() for name in names)
    assert span.num_equations == count_equations(target, parameters, from_initial=True)


def test_loss_is_normalised_and_its_gradients_are_right(target):
    span = GradientSpan(target)
    samples, coefficients = rows(3, 5).requires_grad_(), rows(3, 2, seed=1).requires_grad_()
    squares = sum(float(part.detach().square().sum()) for part in span.residual(samples, coefficients))
    assert float(span.loss(samples, coefficients).detach()) == pytest.approx(squares / span.squared_norm)
    assert float(span.loss(samples, 0 * coefficients).detach()) == pytest.approx(1)
    assert torch.autograd.gradcheck(span.loss, (samples, coefficients), rtol=1e-5)


def test_trained_weights_themselves_need_no_initial_ones(network):
    target = Target.last_layer(network, input_shape=(5,))
    span = GradientSpan(target, from_initial=False)
    for goal, weight in zip(span.rhs, network.parameters(), strict=True):
        torch.testing.assert_close(goal, weight.detach())
    with pytest.raises(InputError, match="weights before training are needed"):
        GradientSpan(target)
    with pytest.raises(InputError, match="weights of 'layers.0.weight' before training are not known"):
        GradientSpan(target, from_initial=False, at="initial")


def test_parameters_with_unknown_initial_weights_are_left_out(network):
    target = Target.last_layer(network, initial_head="zero", input_shape=(5,))
    span = GradientSpan(target, "all")
    assert (span.names, span.left_out) == (("head.weight",), ("layers.0.weight", "layers.1.weight"))
    with pytest.raises(InputError, match="'body' are not known"):
        GradientSpan(target, "body")


@pytest.mark.parametrize("prune", [False, True])
def test_random_features_have_the_head_alone(prune):
    training = data.load("sphere", dim=6, samples=3, seed=0)
    victim = RandomFeatures(num_features=80, activation="gelu").fit(training.inputs, training.labels)
    if prune:
        victim = victim.prune(training.inputs, training.labels, keep=0.5)
    target = victim.target()
    span = GradientSpan(target)
    assert span.num_equations == (40 if prune else 80)
    samples, coefficients = training.inputs.double().requires_grad_(), rows(3, 1).requires_grad_()
    features = target.features.with_dtype(torch.float64).forward(samples.detach())
    torch.testing.assert_close(span.combination(samples, coefficients)[0], coefficients.T @ features)
    assert torch.autograd.gradcheck(span.loss, (samples, coefficients))
    fitted = torch.linalg.lstsq(features.T, span.rhs[0].T).solution
    assert float(span.loss(samples, fitted).detach()) < 1e-8  # the weights are in float32
    with pytest.raises(InputError, match="only the head"):
        GradientSpan(target, "first")


def test_pruned_heads_of_networks_are_known_by_their_features():
    network = MLP(5, (9, 8), seed=0).double().eval()
    network.head.weight.data[:, ::2] = 0
    initial = {name: weight.detach() + 0.1 for name, weight in network.named_parameters()}
    target = Target.last_layer(network, initial_head=initial, input_shape=(5,))
    assert target.surviving is not None
    assert GradientSpan(target).num_equations == 4
    with pytest.raises(InputError, match="its head is pruned"):
        GradientSpan(target, "body")


def test_bad_choices_are_named(target):
    with pytest.raises(InputError, match="parameters are called nose; valid: all, head, first, body, layers"):
        GradientSpan(target, "nose")
    with pytest.raises(InputError, match="gradients at 'home'; valid: trained, initial, midpoint"):
        GradientSpan(target, at="home")
    frozen = nn.Sequential(nn.Linear(4, 9).requires_grad_(False), nn.ReLU(), nn.Linear(9, 1)).eval()
    with pytest.raises(InputError, match="no parameters of the body were trained"):
        GradientSpan(Target.last_layer(frozen, input_shape=(4,)), "body", from_initial=False)


@pytest.mark.parametrize(("activation", "hidden"), [("relu", True), ("gelu", False)])
def test_hidden_norms_are_seen(activation, hidden):
    target = Target.last_layer(MLP(5, (9, 8), 2, activation).eval(), input_shape=(5,))
    span = GradientSpan(target, from_initial=False)
    assert span.hides_norms is hidden
    assert span.unknowns(3, 2) == 3 * (5 - hidden + 2)


def test_margin_coefficients_give_the_gradient_of_the_margin(network):
    target = Target.last_layer(network, input_shape=(5,))
    span = GradientSpan(target, from_initial=False)
    samples, weights, classes = rows(4, 5), torch.tensor([0.5, 1.0, 2.0, 3.0]).double(), torch.tensor([0, 1, 1, 0])
    outputs = network(samples)
    margins = outputs.gather(1, classes[:, None])[:, 0] - outputs.gather(1, 1 - classes[:, None])[:, 0]
    expected = torch.autograd.grad((weights * margins).sum(), list(network.parameters()))
    found = span.combination(samples, margin_coefficients(weights, classes))
    for mine, its in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.detach(), its)
    one = margin_coefficients(weights, torch.tensor([1, -1, 1, -1]))(torch.zeros(4, 1))
    assert one.flatten().tolist() == [0.5, -1.0, 2.0, -3.0]
    three = margin_coefficients(torch.tensor([2.0]), torch.tensor([1]))(torch.tensor([[0.3, 5.0, 0.4]]))
    assert three.tolist() == [[0.0, 2.0, -2.0]]


def convolutional():
    """With running statistics, ReLUs in place and a biased head: a module of the user's own."""
    torch.manual_seed(0)
    body = (nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Flatten())
    return nn.Sequential(*body, nn.Linear(3 * 36, 2)), (1, 8, 8)


def transformer():
    return VisionTransformer((1, 8, 8), 6, 2, depth=1, zero_head=False), (1, 8, 8)


def residual():
    return ResNet((1, 6, 6), 2, 2, blocks=1), (1, 6, 6)


@pytest.mark.parametrize("make", [convolutional, transformer, residual], ids=lambda make: make.__name__)
def test_any_module_can_be_descended_on(make):
    module, shape = make()
    target = Target.last_layer(module.double().eval(), input_shape=shape)
    span = GradientSpan(target, from_initial=False)
    assert set(span.names) == {name for name, _ in module.named_parameters()}
    samples = rows(2, torch.Size(shape).numel()).requires_grad_()
    coefficients, direction = rows(2, 2, seed=1), rows(2, torch.Size(shape).numel(), seed=2)
    with softplus(5.0):
        (slope,) = torch.autograd.grad(span.loss(samples, coefficients), samples)
        step = 1e-5 * direction
        ahead, behind = (float(span.loss(samples + move, coefficients).detach()) for move in (step, -step))
    assert float((slope * direction).sum()) == pytest.approx((ahead - behind) / 2e-5, rel=1e-4)
