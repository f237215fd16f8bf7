"""A simulated training takes the steps of torch.optim, and its Jacobian is that of finite differences."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from exhume import Recipe
from exhume.errors import InputError
from exhume.training.simulation import Simulation, Unknowns

SAMPLES, DIM, CLASSES, STEPS = 8, 6, 3, 11
MOMENTUM = {"momentum": 0.9}
OPTIMISERS = {
    "sgd": (Recipe(optimiser="sgd"), torch.optim.SGD, {}),
    "momentum": (Recipe(optimiser="momentum", **MOMENTUM), torch.optim.SGD, MOMENTUM),
    "nesterov": (Recipe(optimiser="nesterov", **MOMENTUM), torch.optim.SGD, MOMENTUM | {"nesterov": True}),
    "adam": (Recipe(optimiser="adam", betas=(0.8, 0.95)), torch.optim.Adam, {"betas": (0.8, 0.95)}),
    "adamw": (Recipe(optimiser="adamw"), torch.optim.AdamW, {}),
    "rmsprop": (Recipe(optimiser="rmsprop"), torch.optim.RMSprop, {}),
    "rmsprop with momentum": (Recipe(optimiser="rmsprop", **MOMENTUM), torch.optim.RMSprop, MOMENTUM),
}


def normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(activation=nn.GELU):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(DIM, 12), activation(), nn.BatchNorm1d(12), nn.Linear(12, CLASSES)).double()


def initial_of(module):
    return {name: each.detach().clone() for name, each in module.named_parameters()}


def flat(module):
    return torch.cat([each.detach().flatten() for each in module.parameters()])


X, LABELS = normal(SAMPLES, DIM, seed=0), torch.arange(SAMPLES) % CLASSES
Y = functional.one_hot(LABELS, CLASSES).double()


@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_step_is_that_of_torch_optim(name, decay):
    recipe, optimiser, options = OPTIMISERS[name]
    module = network().train()
    initial = initial_of(module)
    steps = optimiser(module.parameters(), lr=0.01, weight_decay=decay, **options)
    schedule = torch.optim.lr_scheduler.MultiStepLR(steps, [4], 0.3)
    path = []
    recipe = recipe.changed(
        steps=STEPS,
        learning_rate=0.01,
        weight_decay=decay,
        batch_size=3,
        order_seed=4,
        schedule=((0, 1.0), (4, 0.3)),
        label_smoothing=0.1,
        batch_norm="train",
    )
    for batch in recipe.batches(SAMPLES):
        steps.zero_grad()
        functional.cross_entropy(module(X[batch]), LABELS[batch], label_smoothing=0.1).backward()
        steps.step()
        schedule.step()
        path.append(flat(module))
    for count, expected in enumerate(path, start=1):
        simulation = Simulation(network(), initial, recipe.changed(steps=count), (DIM,), Y)
        torch.testing.assert_close(simulation.run(Unknowns.of(X)).weights, expected, atol=1e-11, rtol=1e-10)


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_other_losses_are_those_of_torch(loss):
    torch.manual_seed(2)
    module = nn.Linear(DIM, 1).double()
    initial, labels = initial_of(module), torch.where(LABELS > 0, 1.0, -1.0).double()[:, None]
    steps = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(STEPS):
        steps.zero_grad()
        outputs = module(X)
        value = (
            functional.mse_loss(outputs, labels)
            if loss == "square"
            else functional.binary_cross_entropy_with_logits(outputs, (labels + 1) / 2)
        )
        value.backward()
        steps.step()
    recipe = Recipe(loss=loss, learning_rate=0.1, steps=STEPS)
    simulation = Simulation(nn.Linear(DIM, 1).double(), initial, recipe, (DIM,), labels)
    torch.testing.assert_close(simulation.run(Unknowns.of(X)).weights, flat(module), atol=1e-13, rtol=1e-12)


def simulated(name="adam", activation=nn.GELU, memory_budget=2.0**31):
    recipe = OPTIMISERS[name][0].changed(steps=STEPS, learning_rate=0.01, weight_decay=0.02, batch_size=3, order_seed=4)
    module = network(activation)
    return Simulation(module, initial_of(module), recipe, (DIM,), Y, memory_budget)


@pytest.mark.parametrize("name", ["momentum", "adam", "adamw", "rmsprop"])
def test_products_are_those_of_finite_differences_and_adjoint_to_each_other(name):
    simulation, step = simulated(name), 1e-6
    along = Unknowns(normal(SAMPLES, DIM, seed=5), normal(2, seed=6))
    at = simulation.linearise(Unknowns.of(X))
    ahead, behind = (
        simulation.run(Unknowns(X + sign * step * along.samples, sign * step * along.scalars)).weights
        for sign in (1, -1)
    )
    change = at.jvp(along)
    torch.testing.assert_close(change, (ahead - behind) / (2 * step), atol=1e-6, rtol=1e-4)
    cotangent = normal(len(change), seed=7)
    back = at.vjp(cotangent)
    inner = float((back.samples * along.samples).sum() + (back.scalars * along.scalars).sum())
    assert inner == pytest.approx(float(cotangent @ change), rel=1e-9)


def test_a_small_memory_budget_changes_no_product():
    whole, cut = simulated(), simulated(memory_budget=2e5)
    segments, kept = cut.segments(Unknowns.of(X))
    assert len(segments) > 2
    assert not kept
    assert whole.segments(Unknowns.of(X)) == ([range(STEPS)], True)
    along = Unknowns(normal(SAMPLES, DIM, seed=5), normal(2, seed=6))
    one, other = (each.linearise(Unknowns.of(X)) for each in (whole, cut))
    torch.testing.assert_close(one.jvp(along), other.jvp(along), atol=1e-12, rtol=1e-9)
    cotangent = normal(len(whole.start), seed=7)
    torch.testing.assert_close(one.vjp(cotangent).samples, other.vjp(cotangent).samples, atol=1e-12, rtol=1e-9)


class ScaledGelu(nn.Module):
    def forward(self, values):
        return functional.gelu(4.0 * values) / 4.0


def test_a_sharpness_simulates_the_network_with_smooth_activations():
    smooth, kinked = simulated("sgd", ScaledGelu), simulated("sgd", nn.ReLU)
    expected = smooth.run(Unknowns.of(X)).weights
    torch.testing.assert_close(kinked.run(Unknowns.of(X), sharpness=4.0).weights, expected)
    torch.testing.assert_close(kinked.linearise(Unknowns.of(X), sharpness=4.0).weights, expected)
    assert not torch.allclose(kinked.run(Unknowns.of(X)).weights, expected, atol=1e-5)


def test_factors_of_rate_and_decay_are_those_of_another_recipe():
    simulation = simulated("adamw")
    other = Simulation(
        network(),
        initial_of(network()),
        simulation.recipe.changed(learning_rate=0.02, weight_decay=0.06),
        (DIM,),
        Y,
    )
    scaled = replace(Unknowns.of(X), scalars=torch.tensor([2.0, 3.0], dtype=torch.float64).log())
    torch.testing.assert_close(simulation.run(scaled).weights, other.run(Unknowns.of(X)).weights)


def test_unknown_numbers_are_refused():
    with pytest.raises(InputError, match="unknown: learning_rate"):
        Simulation(network(), initial_of(network()), Recipe(learning_rate=None), (DIM,), Y)
