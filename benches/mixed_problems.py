"""A thousand small problems for the certificate: activations, widths, noise, rounding, wrong n, networks, images."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import torch
from torch import Tensor

import exhume
from exhume import data, networks
from exhume.support.randomness import generator_for
from exhume.victims import train
from exhume.victims.trained_network import target

ACTIVATIONS = ("relu", "gelu", "tanh")
DIM, SAMPLES = 16, 6
OUTPUTS, MOST_STEPS = 3, 1000  # of the networks
ROUNDINGS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Mixed:
    """One problem.

    Attributes:
        kind: what it tests.
        activation: of the features.
        ratio: equations over d n.
        seed: of data, features and attack.
        noise: relative, added to theta.
        rounding: precision in which theta is released.
        more: rows looked for, less n.
    """

    kind: str
    activation: str
    ratio: float
    seed: int
    noise: float = 0.0
    rounding: str = "float32"
    more: int = 0


def problems() -> list[Mixed]:
    """All of them, in random order, so that every part of them is mixed."""
    product = itertools.product
    several = (*ACTIVATIONS, "abs")
    mixed = [
        *(Mixed("exact weights", *each) for each in product(several, (0.8, 1, 1.2, 1.5, 2, 3, 5), range(8))),
        *(
            Mixed("noise", act, ratio, seed, noise=noise)
            for act, ratio, noise, seed in product(ACTIVATIONS, (1.2, 2, 5), (1e-4, 1e-3, 1e-2, 5e-2), range(5))
        ),
        *(
            Mixed("rounded weights", act, ratio, seed, rounding=rounding)
            for act, ratio, rounding, seed in product(ACTIVATIONS, (1.5, 2, 5), ("float16", "bfloat16"), range(6))
        ),
        *(
            Mixed("wrong n", act, ratio, seed, more=more)
            for act, ratio, more, seed in product(ACTIVATIONS, (1.5, 2, 5), (-1, 1, 2), range(8))
        ),
        *(Mixed("trained networks", *each) for each in product(ACTIVATIONS, (1.5, 2, 3, 5), range(14))),
        *(Mixed("raw images", *each) for each in product(ACTIVATIONS, (0.8, 1.5, 2, 3), range(10))),
    ]
    random.Random(0).shuffle(mixed)
    return mixed


def pose(problem: Mixed) -> tuple[exhume.Target, Tensor]:
    """The target and the true samples."""
    if problem.kind == "trained networks":
        return _network(problem)
    if problem.kind == "raw images":
        inputs, labels = _small_digits(problem.seed)
    else:
        sphere = data.load("sphere", dim=DIM, samples=SAMPLES, seed=2000 + problem.seed)
        inputs, labels = sphere.inputs, sphere.labels
    width = round(problem.ratio * inputs.numel())
    victim = exhume.RandomFeatures(num_features=width, activation=problem.activation, seed=problem.seed)
    theta = victim.fit(inputs, labels).theta_
    wobble = torch.randn(theta.shape, generator=generator_for(problem.seed, "noise on theta"))
    theta = theta + problem.noise * theta.norm() * wobble / wobble.norm()
    return exhume.Target(victim.feature_map_, theta.to(ROUNDINGS[problem.rounding]).float()), inputs


def _small_digits(seed: int) -> tuple[Tensor, Tensor]:
    """Digits of 4 x 4 pixels in [0, 1], not standardised, with labels -1 and +1."""
    digits = data.load("digits", samples=SAMPLES * (seed + 1), standardise="none")
    pixels = digits.inputs[-SAMPLES:].reshape(SAMPLES, 4, 2, 4, 2).mean((2, 4))
    return pixels.flatten(1), torch.tensor([-1.0, 1.0]).repeat(SAMPLES)[:SAMPLES]


def _network(problem: Mixed) -> tuple[exhume.Target, Tensor]:
    """A two-layer network trained in both layers on labels of several outputs."""
    sphere = data.load("sphere", dim=DIM, samples=SAMPLES, seed=3000 + problem.seed)
    labels = torch.randn((SAMPLES, OUTPUTS), generator=torch.Generator().manual_seed(problem.seed))
    width = round(problem.ratio * DIM * SAMPLES / OUTPUTS) + 1
    network = networks.TwoLayer(DIM, width, OUTPUTS, problem.activation, seed=problem.seed)
    trained = train(network, sphere.inputs, labels, stable=True, max_steps=MOST_STEPS)
    return target(trained, knowledge=exhume.Knowledge(num_samples=SAMPLES)), sphere.inputs
