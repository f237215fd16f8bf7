"""First-order updates of named tensors whose whole state can be saved: momentum and Adam."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

Tensors = dict[str, torch.Tensor]


class Update(Protocol):
    """One step down a gradient."""

    def start(self, values: Mapping[str, torch.Tensor]) -> Tensors:
        """The buffers that go with the values, at zero."""

    def apply(self, values: Tensors, gradients: Mapping[str, torch.Tensor], buffers: Tensors, step: int) -> None:
        """Moves values and buffers in place; `step` updates were made before."""


@dataclass(frozen=True)
class Momentum:
    """v <- momentum v + g, x <- x - rate v, with a rate for each value."""

    rates: Mapping[str, float]
    momentum: float = 0.9

    def start(self, values: Mapping[str, torch.Tensor]) -> Tensors:
        """Velocities."""
        return {f"{name}.velocity": torch.zeros_like(value) for name, value in values.items()}

    def apply(self, values: Tensors, gradients: Mapping[str, torch.Tensor], buffers: Tensors, step: int) -> None:
        """One step."""
        for name, value in values.items():
            velocity = buffers[f"{name}.velocity"].mul_(self.momentum).add_(gradients[name])
            value.sub_(velocity, alpha=self.rates[name])


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma & Ba 2015) with its usual constants and a rate for each value."""

    rates: Mapping[str, float]
    decays: tuple[float, float] = (0.9, 0.999)
    floor: float = 1e-8

    def start(self, values: Mapping[str, torch.Tensor]) -> Tensors:
        """First and second moments."""
        return {f"{name}.{which}": torch.zeros_like(value) for name, value in values.items() for which in _MOMENTS}

    def apply(self, values: Tensors, gradients: Mapping[str, torch.Tensor], buffers: Tensors, step: int) -> None:
        """One step, with the moments' bias corrected."""
        first, second = self.decays
        for name, value in values.items():
            mean, square = (buffers[f"{name}.{which}"] for which in _MOMENTS)
            gradient = gradients[name]
            mean.mul_(first).add_(gradient, alpha=1 - first)
            square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
            scale = (square / (1 - second ** (step + 1))).sqrt_().add_(self.floor)
            value.addcdiv_(mean, scale, value=-self.rates[name] / (1 - first ** (step + 1)))


_MOMENTS = ("mean", "square")
