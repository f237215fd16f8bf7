"""MLPClassifier and MLPRegressor as attackable networks: initial weights made again from `random_state`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from exhume.errors import InputError
from exhume.target.knowledge import Knowledge
from exhume.target.start_test import CHANCE, correlation
from exhume.target.target import Target

_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid}
# Seeds that are tried where no integer is stored.
SEEDS_TRIED = 2000
_ADAM = (
    "it was trained with Adam (the default solver), which gives every weight a step size of its own: its first layer "
    "is not moved by a combination of the rows, and no attack of exhume reads that yet"
)

# Weights (inputs, outputs) and intercepts (outputs,) of every layer, as scikit-learn keeps them.
Layers = list[tuple[NDArray[np.float64], NDArray[np.float64]]]


@dataclass(frozen=True)
class NetworkStart:
    """The initial weights of a network, and in one sentence where they come from."""

    layers: Layers
    sentence: str


def network_target(estimator: Any, num_samples: int | None = None) -> tuple[Target, str]:
    """The target of a fitted MLP, and where its initial weights come from; declined ones raise with the reason.

    Args:
        estimator: a fitted MLPClassifier or MLPRegressor.
        num_samples: the number of training rows, if the file states it.
    """
    if estimator.solver == "adam":
        raise InputError(_ADAM)
    if estimator.activation not in _ACTIVATIONS:
        raise InputError(
            f"its activation is {estimator.activation!r}, so that the network is linear and shows the span of its rows "
            "and no more"
        )
    start = find_start(estimator)
    trained = list(zip(estimator.coefs_, estimator.intercepts_, strict=True))
    module = _module(trained, estimator.activation)
    initial = _module(start.layers, estimator.activation).state_dict()
    knowledge = Knowledge() if num_samples is None else Knowledge(num_samples=num_samples)
    shape = (int(estimator.n_features_in_),)
    target = Target.last_layer(module, initial_head=initial, input_shape=shape, knowledge=knowledge)
    assert target.model is not None
    intercepts = tuple(name for name in initial if name.endswith("bias"))  # scikit-learn decays weights only
    return replace(target, model=replace(target.model, undecayed=intercepts)), start.sentence


def find_start(estimator: Any) -> NetworkStart:
    """The initial weights: from the stored integer, else from the first of the integers 0 to 1,999 that fits."""
    seed = estimator.random_state
    if isinstance(seed, int | np.integer):
        layers = initial_layers(estimator, int(seed))
        if not _fits(layers, estimator, 1):
            raise InputError(
                f"the initial weights that random_state {seed} makes do not fit the trained ones: it was trained on "
                "from other weights (warm_start, partial_fit after a change of random_state), or for too long"
            )
        return NetworkStart(layers, f"The initial weights were made again from the stored random_state, {seed}.")
    for tried in range(SEEDS_TRIED):
        layers = initial_layers(estimator, tried)
        if _fits(layers, estimator, SEEDS_TRIED):
            sentence = f"No random_state is stored; the initial weights are those that the seed {tried} makes."
            return NetworkStart(layers, sentence)
    raise InputError(
        f"its initial weights are not known: no integer random_state is stored, and none of the seeds 0 to "
        f"{SEEDS_TRIED - 1:,} makes weights that the trained ones grew from"
    )


def initial_layers(estimator: Any, seed: int) -> Layers:
    """The weights that scikit-learn draws before the first step: uniform, Glorot and Bengio's bound, layer by layer.

    Weights and then intercepts of each layer come from one generator. The factor under the root is 6, and 2 for
    logistic units.
    """
    generator = np.random.RandomState(seed)
    factor = 2.0 if estimator.activation == "logistic" else 6.0
    layers = []
    for weights in estimator.coefs_:
        bound = math.sqrt(factor / sum(weights.shape))
        drawn = generator.uniform(-bound, bound, weights.shape), generator.uniform(-bound, bound, weights.shape[1])
        layers.append((drawn[0].astype(weights.dtype), drawn[1].astype(weights.dtype)))
    return layers


def _fits(layers: Layers, estimator: Any, candidates: int) -> bool:
    """Whether the trained weights still correlate with these, beyond what chance does over so many candidates."""
    before, after = (_flat(each) for each in ((each for each, _ in layers), estimator.coefs_))
    least = math.sqrt(2 * math.log(candidates / CHANCE) / len(before))
    return correlation(before, after) > least


def _flat(weights: Iterable[Any]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([np.asarray(each, dtype=np.float64).ravel() for each in weights]))


def _module(layers: Layers, activation: str) -> nn.Sequential:
    """A torch module with these weights; its outputs are those before the last activation."""
    parts: list[nn.Module] = []
    for weights, intercepts in layers:
        layer = nn.Linear(weights.shape[0], weights.shape[1], dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(np.array(weights.T, dtype=np.float64)))
            assert layer.bias is not None
            layer.bias.copy_(torch.from_numpy(np.array(intercepts, dtype=np.float64)))
        parts += [layer, _ACTIVATIONS[activation]()]
    return nn.Sequential(*parts[:-1]).eval()
