"""How the networks of the benchmark are trained: a plain torch loop, as people write it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from exhume.data import Dataset

_SEED = 0


@dataclass(frozen=True)
class Recipe:
    """Stochastic gradient descent on cross-entropy.

    Attributes:
        rate, momentum, decay: of `torch.optim.SGD`.
        epochs: of training.
        batch: samples a step; None for all of them.
    """

    rate: float
    epochs: int
    batch: int | None = None
    momentum: float = 0.0
    decay: float = 0.0


def train_perceptron(
    training: Dataset, hidden: tuple[int, ...], recipe: Recipe
) -> tuple[nn.Sequential, dict[str, Tensor]]:
    """A ReLU network with biases, trained from torch's own initial weights; and these initial weights."""
    outputs = training.labels.shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        layers: list[nn.Module] = []
        for inputs, width in pairwise((training.input_dim, *hidden)):
            layers += [nn.Linear(inputs, width), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Linear(hidden[-1], outputs))
        initial = {name: weight.clone() for name, weight in model.state_dict().items()}
        optimiser = torch.optim.SGD(model.parameters(), recipe.rate, recipe.momentum, weight_decay=recipe.decay)
        count = training.num_samples
        for _ in range(recipe.epochs):
            for rows in torch.randperm(count).split(recipe.batch or count):
                optimiser.zero_grad()
                functional.cross_entropy(model(training.inputs[rows]), training.labels[rows]).backward()
                optimiser.step()
    return model.eval(), initial


def probe(training: Dataset) -> tuple[nn.Sequential, list[Tensor]]:
    """Random convolutions of 8 x 8 pictures that stay as they are, and a head that is fitted to their features."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        body = nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 20, 3), nn.GELU(), nn.Flatten())
        body.requires_grad_(False)
        model = nn.Sequential(body, nn.Linear(720, training.labels.shape[1], bias=False))
    head = model[1]
    assert isinstance(head, nn.Linear)
    head.weight.data = torch.linalg.lstsq(body(training.inputs), training.labels).solution.T
    return model.eval(), list(body.state_dict().values())
