"""Training of a network by a recipe: any optimiser of `Recipe`, with batches in its order."""

from __future__ import annotations

import torch
from torch import Tensor

from exhume.errors import InputError
from exhume.networks import Network
from exhume.training import losses
from exhume.training.gradient_descent import Training
from exhume.training.recipe import Recipe
from exhume.training.simulation import Simulation, Unknowns


def train_by_recipe(network: Network, inputs: Tensor, labels: Tensor, recipe: Recipe) -> Training:
    """Trains all weights of a network in place, every step as `torch.optim` takes it.

    Args:
        network: in its initial state.
        inputs, labels: (n, d), and labels that the recipe's loss takes.
        recipe: with all of its numbers, and the order of its batches.
    """
    if recipe.unknown or not recipe.order_known:
        raise InputError(f"the recipe leaves {', '.join(recipe.unknown) or 'order_seed'} unknown; training needs it")
    loss, initial = losses.get(recipe.loss), {name: each.clone() for name, each in network.state_dict().items()}
    targets = loss.targets(labels, network.num_outputs).to(inputs)
    names = [name for name, _ in network.named_parameters()]
    simulation = Simulation(network, {name: initial[name] for name in names}, recipe, network.input_shape, targets)
    weights = simulation.run(Unknowns.of(inputs)).weights
    with torch.no_grad():
        before = network.features(inputs)
        torch.nn.utils.vector_to_parameters(weights, network.parameters())
        after, value = network.features(inputs), float(loss.value(network.eval()(inputs), targets))
    return Training(
        network=network,
        initial=initial,
        steps=recipe.steps,
        loss=value,
        converged=True,
        step_size=recipe.learning_rate or 0.0,  # None was refused above
        weight_decay=recipe.weight_decay or 0.0,
        loss_name=recipe.loss,
        decay=1.0,
        drift=float((after - before).norm() / after.norm()),
        note=f"Recipe: {recipe.sentence()}.",
    )
