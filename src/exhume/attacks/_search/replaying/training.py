"""The training that `replay` simulates, as its recipe says or in fewer steps of the same length in all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from exhume.training.recipe import Recipe
from exhume.training.simulation import Simulation, Unknowns

# Learning rates of coarse trainings are adjusted so often to the length of the whole one.
_ADJUSTMENTS = 3


@dataclass(frozen=True)
class Training:
    """The training to be replayed.

    Attributes:
        module: the network.
        initial: weights before training, of all that were trained.
        trained: theta_T (P,).
        recipe: with a first guess of numbers that are not known.
        fitted: whether learning rate and weight decay are.
        input_shape: of a sample.
        targets: Y (n, k).
        basis: (r, d) of a subspace that holds the samples; None if none is known.
    """

    module: nn.Module
    initial: Mapping[str, Tensor]
    trained: Tensor
    recipe: Recipe
    fitted: tuple[bool, bool]
    input_shape: tuple[int, ...]
    targets: Tensor
    basis: Tensor | None = None

    def simulation(self, steps: int | None = None, factor: float = 1.0) -> Simulation:
        """Of the recipe, or of so many steps that are as long together, times a factor, on all samples at once."""
        recipe = self.recipe
        if steps is not None:
            rate = factor * (recipe.learning_rate or 0.0) * sum(recipe.factors()) / steps / (1 - recipe.momentum)
            optimiser = recipe.optimiser if recipe.adaptive else "sgd"
            plain = {"optimiser": optimiser, "momentum": 0.0, "schedule": None}
            recipe = recipe.changed(steps=steps, learning_rate=rate, batch_size=None, order_seed=None, **plain)
        return Simulation(self.module, self.initial, recipe, self.input_shape, self.targets)

    def factor(self, samples: Tensor, steps: int) -> float:
        """The factor by which coarse steps move as far as the recipe's at these samples."""
        if self.fitted[0]:
            length = float((self.trained - self.simulation(1).start).norm())
        else:
            length = _length(self.simulation(), samples)
        factor = 0.6
        for _ in range(_ADJUSTMENTS):
            moved = _length(self.simulation(steps, factor), samples)
            factor *= min(max(length / max(moved, 1e-30), 0.1), 10.0) if math.isfinite(moved) else 0.1
        return factor


def _length(simulation: Simulation, samples: Tensor) -> float:
    return float((simulation.run(Unknowns.of(samples)).weights - simulation.start).norm())


def is_smooth(training: Training) -> bool:
    """Whether the network has no ReLU: then a sharpness changes nothing."""
    simulation, probe = training.simulation(1), torch.Generator().manual_seed(0)
    samples = torch.randn((len(training.targets), math.prod(training.input_shape)), generator=probe)
    ends = [simulation.run(Unknowns.of(samples.to(training.targets)), each).weights for each in (None, 1.0)]
    return torch.equal(*ends)
