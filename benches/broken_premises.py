"""Victims for which the premise of unmixing does not hold: a wrong start, no span, no ReLU, or no sparse columns.

An attack may recover samples here all the same; it must not certify wrong ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from benches.ordinary_networks import ADAM, ONE_STEP, RECIPES, Network, Victim, victim

SIZES = ((64, 256, 5), (256, 512, 512, 5))
SAMPLES = 10
# Standard deviation of the noise over that of the weights, by seed.
NOISE = (1e-4, 1e-3, 1e-2)
_RECIPES = tuple(RECIPES.values())


def usual(seed: int, outputs: int = 5, activation: str = "relu", batch_norm: bool = False) -> Victim:
    """A network and a recipe that change with the seed."""
    network = Network((*SIZES[seed % 2][:-1], outputs), activation, batch_norm=batch_norm)
    return victim(network, _RECIPES[seed % len(_RECIPES)], SAMPLES, seed)


def permuted(seed: int) -> Victim:
    """Trained weights of the first layer in a random order: of its neurons, or of all its entries."""
    found = usual(seed)
    state, generator = dict(found.module.state_dict()), torch.Generator().manual_seed(seed)
    weight = state["0.weight"]
    if seed % 4 < 2:
        order = torch.randperm(len(weight), generator=generator)
        state |= {"0.weight": weight[order], "0.bias": state["0.bias"][order]}
    else:
        order = torch.randperm(weight.numel(), generator=generator)
        state["0.weight"] = weight.flatten()[order].reshape(weight.shape)
    return found.with_weights(state)


def other_start(seed: int) -> Victim:
    """The start of another seed."""
    found = usual(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1000 + seed)
        initial = Network(SIZES[seed % 2]).build().state_dict()
    renamed = zip(found.initial, initial.values(), strict=True)  # dropout shifts the names of layers
    return replace(found, initial={name: value.clone() for name, value in renamed})


def adam(seed: int) -> Victim:
    """Trained by Adam, whose steps leave the span of the inputs."""
    return victim(Network(SIZES[seed % 2]), ADAM, SAMPLES, seed)


def not_relu(activation: str) -> Callable[[int], Victim]:
    """Another activation; odd seeds show the attack a ReLU in its place."""

    def make(seed: int) -> Victim:
        found = usual(seed, activation=activation)
        kind = type(found.module[1])
        shown = [nn.ReLU() if seed % 2 and isinstance(layer, kind) else layer for layer in found.module]
        return replace(found, module=nn.Sequential(*shown).eval())

    return make


def noisy(seed: int) -> Victim:
    """Gaussian noise on all trained weights."""
    found, generator = usual(seed), torch.Generator().manual_seed(seed)
    share = NOISE[seed % len(NOISE)]
    return found.with_weights(
        {
            name: value + share * value.std() * torch.randn(value.shape, generator=generator)
            for name, value in found.module.state_dict().items()
        }
    )


def batch_normalised(seed: int) -> Victim:
    """Batch normalisation in front of the first ReLU; odd seeds merge it into the first layer after training."""
    found = usual(seed, batch_norm=True)
    if seed % 2 == 0:
        return found
    dense, norm, *rest = found.module
    assert isinstance(dense, nn.Linear)
    assert isinstance(norm, nn.BatchNorm1d)
    merged = nn.Sequential(_merged(dense, norm), *rest).eval()
    kept = [value for name, value in found.initial.items() if not name.startswith("1.")]
    return replace(found, module=merged, initial=dict(zip(merged.state_dict(), kept, strict=True)))


def one_step(outputs: int) -> Callable[[int], Victim]:
    """One output or two classes after a single step, where mixtures of samples are sparser than samples."""
    return lambda seed: victim(Network((*SIZES[seed % 2][:-1], outputs)), ONE_STEP, SAMPLES, seed)


PREMISES: dict[str, Callable[[int], Victim]] = {
    "permuted weights": permuted,
    "start of another seed": other_start,
    "Adam": adam,
    "leaky ReLU": not_relu("leaky_relu"),
    "GELU": not_relu("gelu"),
    "tanh": not_relu("tanh"),
    "noise on the weights": noisy,
    "batch normalisation": batch_normalised,
    "one output, one step": one_step(1),
    "two classes, one step": one_step(2),
}


def _merged(dense: nn.Linear, norm: nn.BatchNorm1d) -> nn.Linear:
    """The one layer that acts as a dense layer and its batch normalisation in eval mode."""
    merged = nn.Linear(dense.in_features, dense.out_features)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    factors = norm.weight / (norm.running_var + norm.eps).sqrt()  # (h,)
    with torch.no_grad():
        merged.weight.copy_(factors[:, None] * dense.weight)
        merged.bias.copy_(factors * (dense.bias - norm.running_mean) + norm.bias)
    return merged
