"""Ordinary networks to attack: fully connected networks and recipes, trained by a plain torch loop."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

import exhume
from benches.pictures import Pictures, draw, sources

State = dict[str, Tensor]

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
}


@dataclass(frozen=True)
class Network:
    """A fully connected network; `sizes` holds inputs, hidden widths and outputs."""

    sizes: tuple[int, ...]
    activation: str = "relu"
    bias: str = "all"  # or "first": the first layer's only
    batch_norm: bool = False  # between the first layer and its activation

    @property
    def name(self) -> str:
        """Such as "64-256-5 gelu"."""
        sizes = "-".join(map(str, self.sizes))
        return sizes if self.activation == "relu" else f"{sizes} {self.activation}"

    @property
    def num_outputs(self) -> int:
        """k; one output is trained on labels -1 and +1 of two classes."""
        return self.sizes[-1]

    def build(self, dropout: float = 0.0) -> nn.Sequential:
        """The module, with torch's own start; dropout follows every hidden layer."""
        layers: list[nn.Module] = []
        for place, (inputs, outputs) in enumerate(zip(self.sizes[:-1], self.sizes[1:], strict=True)):
            layers.append(nn.Linear(inputs, outputs, bias=self.bias == "all" or place == 0))
            if place == 0 and self.batch_norm:
                layers.append(nn.BatchNorm1d(outputs))
            if place < len(self.sizes) - 2:
                layers += [ACTIVATIONS[self.activation](), *([nn.Dropout(dropout)] if dropout else [])]
        return nn.Sequential(*layers)


@dataclass(frozen=True)
class Recipe:
    """How a network is trained: cross-entropy, or the square loss with one output.

    Attributes:
        rate, momentum, nesterov, decay: of SGD; the others start from `rate`.
        epochs: at most; for L-BFGS its iterations.
        batch: samples a step; None for all.
        cosine: whether the rate falls to zero along a cosine.
        smoothing: of the labels.
        clip: largest norm of a gradient.
        dropout: after every hidden layer.
        until: training ends once the loss is below this.
        patience: training ends once the loss of held-out pictures has not fallen for so many epochs.
        optimiser: "sgd", "lbfgs" or "adam".
    """

    rate: float
    epochs: int
    batch: int | None = None
    momentum: float = 0.0
    nesterov: bool = False
    decay: float = 0.0
    cosine: bool = False
    smoothing: float = 0.0
    clip: float | None = None
    dropout: float = 0.0
    until: float | None = None
    patience: int | None = None
    optimiser: str = "sgd"


RECIPES = {
    "full batch": Recipe(0.05, 300),
    "batches, momentum": Recipe(0.01, 100, batch=5, momentum=0.9),
    "Nesterov, dropout": Recipe(0.01, 100, batch=5, momentum=0.9, nesterov=True, dropout=0.2),
    "cosine, smoothing": Recipe(0.01, 150, batch=5, momentum=0.9, cosine=True, smoothing=0.1),
    "clipped": Recipe(0.02, 100, batch=5, momentum=0.9, clip=1.0),
    "L-BFGS": Recipe(0.1, 20, optimiser="lbfgs"),
}
EARLY = Recipe(0.01, 100, batch=5, momentum=0.9, patience=3)
SIMUDY = Recipe(0.01, 20)
# At a rate of 0.01 the networks of 50 and 100 samples had a loss above 2, or NaN, after 40 epochs (5 of 5 seeds).
SIMUDY_LONG = Recipe(0.005, 200, batch=5, momentum=0.9, until=1e-3)
ADAM = Recipe(1e-3, 100, batch=5, optimiser="adam")
ONE_STEP = Recipe(0.01, 1)
# Share of a recipe's rate with one output: with the rates above 22 of 162 of these networks diverged or died, with a
# tenth none of 180 (3 networks, n = 10 and 20, 6 recipes, 5 seeds).
SQUARE_LOSS_RATE = 0.1


@dataclass(frozen=True)
class Victim:
    """A trained network with its start and its training data.

    Attributes:
        module: in eval mode.
        initial: its state before training.
        pictures: what it was trained on.
        loss_before, loss: of the training data, in eval mode.
        until: the loss that training was to reach, if any.
    """

    module: nn.Sequential
    initial: State
    pictures: Pictures
    loss_before: float
    loss: float
    until: float | None = None

    @property
    def diverged(self) -> bool:
        """Whether training failed.

        Its weights are not finite, its loss is above the one at its start or the one that it was to reach, or the
        network died: its outputs no longer depend on its inputs.
        """
        finite = all(bool(value.isfinite().all()) for value in self.module.state_dict().values())
        if not finite or not self.loss <= min(self.loss_before, self.until or math.inf):
            return True
        with torch.no_grad():
            outputs = self.module(self.pictures.inputs)
        return bool((outputs == outputs[0]).all())

    def released(self, dtype: torch.dtype) -> Victim:
        """The same with weights rounded to a dtype after training, and handed over in float32."""
        return self.with_weights({name: value.to(dtype).float() for name, value in self.module.state_dict().items()})

    def with_weights(self, state: State) -> Victim:
        """The same with other trained weights."""
        module = copy.deepcopy(self.module)
        module.load_state_dict(state)
        return replace(self, module=module.eval())

    def target(self, num_samples: int | None = None) -> exhume.Target:
        """What an adversary holds who knows the start; n only if it is given."""
        return exhume.Target.last_layer(
            self.module,
            initial_head=self.initial,
            input_shape=tuple(self.pictures.inputs.shape[1:]),
            knowledge=exhume.Knowledge(num_samples=num_samples),
        )


def victim(network: Network, recipe: Recipe, samples: int, seed: int, standardise: str = "subset") -> Victim:
    """A network trained on square grey pictures, of data sets in turn of the seed; one output takes smaller steps."""
    kinds = sources(network.num_outputs)
    size, classes = math.isqrt(network.sizes[0]), max(network.num_outputs, 2)
    if network.num_outputs == 1 and recipe.optimiser == "sgd":
        recipe = replace(recipe, rate=SQUARE_LOSS_RATE * recipe.rate)
    return train(network, recipe, draw(kinds[seed % len(kinds)], size, classes, samples, seed, standardise), seed)


def train(network: Network, recipe: Recipe, pictures: Pictures, seed: int) -> Victim:
    """Trains a network from torch's start under the seed; batches and dropout follow the same generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = network.build(recipe.dropout)
        initial = {name: value.clone() for name, value in module.state_dict().items()}
        before = _loss(module, pictures)
        if recipe.optimiser == "lbfgs":
            _train_by_lbfgs(module, recipe, pictures)
        else:
            _train_by_steps(module, recipe, pictures)
        loss = _loss(module, pictures)
        return Victim(module.eval(), initial, pictures, before, loss, recipe.until)


def objective(outputs: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy, or with one output the square loss of labels -1 and +1."""
    if outputs.shape[1] == 1:
        return functional.mse_loss(outputs[:, 0], 2.0 * labels - 1.0)
    return functional.cross_entropy(outputs, labels, label_smoothing=smoothing)


def _train_by_steps(module: nn.Sequential, recipe: Recipe, pictures: Pictures) -> None:
    if recipe.optimiser == "adam":
        optimiser: torch.optim.Optimizer = torch.optim.Adam(module.parameters(), recipe.rate)
    else:
        optimiser = torch.optim.SGD(
            module.parameters(), recipe.rate, recipe.momentum, weight_decay=recipe.decay, nesterov=recipe.nesterov
        )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, recipe.epochs) if recipe.cosine else None
    best, since = math.inf, 0
    for _ in range(recipe.epochs):
        for rows in _batches(len(pictures.inputs), recipe.batch):
            optimiser.zero_grad()
            objective(module(pictures.inputs[rows]), pictures.labels[rows], recipe.smoothing).backward()
            if recipe.clip is not None:
                nn.utils.clip_grad_norm_(module.parameters(), recipe.clip)
            optimiser.step()
        if schedule is not None:
            schedule.step()
        if recipe.until is not None and _loss(module, pictures) < recipe.until:
            return
        if recipe.patience is not None:
            held_out = _loss(module, replace(pictures, inputs=pictures.others, labels=pictures.other_labels))
            best, since = (held_out, 0) if held_out < best else (best, since + 1)
            if since == recipe.patience:
                return


def _train_by_lbfgs(module: nn.Sequential, recipe: Recipe, pictures: Pictures) -> None:
    optimiser = torch.optim.LBFGS(module.parameters(), recipe.rate, max_iter=recipe.epochs)

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = objective(module(pictures.inputs), pictures.labels, recipe.smoothing)
        loss.backward()
        return loss

    optimiser.step(closure)


def _batches(samples: int, size: int | None) -> Iterator[Tensor]:
    """Rows of one epoch; batches of one size as nearly as the samples allow, so that none has a single sample."""
    if size is None:
        yield torch.arange(samples)
    else:
        yield from torch.randperm(samples).tensor_split(-(-samples // size))


def _loss(module: nn.Sequential, pictures: Pictures) -> float:
    """Of all pictures, without dropout and smoothing; leaves the module in training mode."""
    module.eval()
    with torch.no_grad():
        loss = float(objective(module(pictures.inputs), pictures.labels))
    module.train()
    return loss
