"""Small networks trained in all layers, drawn at random: families, recipes, losses and pictures of three data sets."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from benches.ordinary_networks import ACTIVATIONS, Victim
from benches.pictures import Pictures, draw, sources

SIZE = 6  # calibration was done with 8 and up to 2,000 features
DIM = SIZE * SIZE
# Error bars were set on the first families, and are judged on the second.
CALIBRATION = ("dense relu", "dense gelu", "conv relu", "conv gelu", "conv norm relu")
JUDGING = (
    "dense tanh",
    "dense-dense relu",
    "dense-dense gelu",
    "strided relu",
    "strided norm relu",
    "conv-conv relu",
    "conv-conv tanh",
    "conv-conv norm relu",
)
_BETWEEN = {"dense-dense": 256, "conv-conv": 16}  # width, or channels, of the layer before the last hidden one
MOST_FEATURES = 1000


@dataclass(frozen=True)
class Case:
    """A network and how it is trained.

    Attributes:
        family: layers, "norm" for BatchNorm (trained in train mode, attacked in eval mode), and the activation.
        num_features: of the head, nearly.
        num_outputs: k; one output is trained on labels -1 and +1.
        samples: n.
        source: data set.
        loss: "square" or "cross-entropy".
        rate, epochs, momentum, batch, decay: of SGD; a batch of None is all samples.
        seed: of weights, batches and pictures.
    """

    family: str
    num_features: int
    num_outputs: int
    samples: int
    source: str
    loss: str
    rate: float
    epochs: int
    momentum: float
    batch: int | None
    decay: float
    seed: int


def draw_case(families: tuple[str, ...], index: int) -> Case:
    """The case of this index: families and losses in turn, the rest at random."""
    rng = random.Random(f"{families} {index}")
    outputs = rng.choice((1, 2, 2, 3, 5, 10))
    loss = "square" if outputs == 1 else ("square", "cross-entropy")[index // len(families) % 2]
    samples = rng.choice((4, 4, 5, 5, 6, 7, 8) if outputs > 1 else (3, 4))
    combinations = outputs - (loss == "cross-entropy")
    ratio = math.exp(rng.uniform(math.log(2), math.log(14)))
    return Case(
        family=families[index % len(families)],
        num_features=max(DIM, min(round(ratio * DIM * samples / combinations), MOST_FEATURES)),
        num_outputs=outputs,
        samples=samples,
        source=rng.choice(sources(outputs)),
        loss=loss,
        rate=rng.choice((0.002, 0.005, 0.02)) * (0.3 if outputs == 1 else 1.0),
        epochs=rng.choice((10, 30, 100)),
        momentum=rng.choice((0.0, 0.0, 0.9)),
        batch=rng.choice((None, None, 5)),
        decay=rng.choice((0.0, 0.0, 5e-4, 5e-3)),
        seed=index,
    )


def build(family: str, num_features: int, num_outputs: int) -> nn.Sequential:
    """The module, for flat inputs, with torch's own start."""
    kind, *norm, activation = family.split()
    act = ACTIVATIONS[activation]
    if kind.startswith("dense"):
        widths = (DIM, *([_BETWEEN[kind]] if kind in _BETWEEN else []), num_features)
        hidden = [layer for sizes in pairwise(widths) for layer in (nn.Linear(*sizes), act())]
        return nn.Sequential(*hidden, nn.Linear(num_features, num_outputs))
    stride, kernel = (2, 5) if kind == "strided" else (1, 3)
    positions = (SIZE // stride) ** 2
    channels = (1, *([_BETWEEN[kind]] if kind in _BETWEEN else []), max(2, round(num_features / positions)))
    layers: list[nn.Module] = [nn.Unflatten(1, (1, SIZE, SIZE))]
    for before, after in pairwise(channels):
        layers += [nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2)]
        layers += [*([nn.BatchNorm2d(after)] if norm else []), act()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels[-1] * positions, num_outputs))


def train(case: Case) -> Victim:
    """Trains the network by SGD."""
    pictures = draw(case.source, SIZE, max(case.num_outputs, 2), case.samples, case.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(case.seed)
        module = build(case.family, case.num_features, case.num_outputs)
        initial = {name: value.clone() for name, value in module.state_dict().items()}
        before = _loss(module, case, pictures)
        optimiser = torch.optim.SGD(module.parameters(), case.rate, case.momentum, weight_decay=case.decay)
        for _ in range(case.epochs):
            order = torch.arange(case.samples) if case.batch is None else torch.randperm(case.samples)
            for rows in order.tensor_split(1 if case.batch is None else -(-case.samples // case.batch)):
                optimiser.zero_grad()
                _objective(module(pictures.inputs[rows]), pictures.labels[rows], case).backward()
                optimiser.step()
        after = _loss(module, case, pictures)
        return Victim(module.eval(), initial, pictures, before, after)


def _objective(outputs: Tensor, labels: Tensor, case: Case) -> Tensor:
    if case.num_outputs == 1:
        return functional.mse_loss(outputs[:, 0], 2.0 * labels - 1.0)
    if case.loss == "square":
        return functional.mse_loss(outputs, functional.one_hot(labels, case.num_outputs).to(outputs))
    return functional.cross_entropy(outputs, labels)


def _loss(module: nn.Sequential, case: Case, pictures: Pictures) -> float:
    """Of all pictures in eval mode; leaves the module in training mode."""
    module.eval()
    with torch.no_grad():
        loss = _objective(module(pictures.inputs), pictures.labels, case).item()
    module.train()
    return loss
