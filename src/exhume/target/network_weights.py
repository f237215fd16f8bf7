"""The weights of a whole network: after training, and before it as far as they are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from exhume.errors import InputError
from exhume.support.validation import finite
from exhume.target.displacement import Initial, InitialBias, weights_before


@dataclass(frozen=True)
class NetworkWeights:
    """The network that a target belongs to, for attacks that read more than its head.

    Attributes:
        module: trained, in eval mode, its weights frozen.
        head: name of the layer whose displacement the target holds; "" if the module is that layer.
        trained: names of the parameters that training moved.
        initial: weights before training, by name, as far as they are known.
        undecayed: names of parameters that are known to have no weight decay, while others may have.
    """

    module: nn.Module
    head: str
    trained: tuple[str, ...]
    initial: Mapping[str, torch.Tensor] = field(default_factory=dict)
    undecayed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        weights = dict(self.module.named_parameters())
        for name, before in self.initial.items():
            if name not in weights:
                raise InputError(f"the module has no weights {name!r}; it has: {', '.join(weights)}")
            if before.shape != weights[name].shape:
                raise InputError(
                    f"initial {name} of shape {tuple(before.shape)} does not fit trained ones of "
                    f"{tuple(weights[name].shape)}"
                )

    def in_head(self, name: str) -> bool:
        """Whether a parameter belongs to the head."""
        return name.startswith(f"{self.head}." if self.head else "")

    def weights(self, names: Iterable[str] | None = None) -> dict[str, torch.Tensor]:
        """Trained weights of the named parameters, or of all."""
        trained = {name: weight.detach() for name, weight in self.module.named_parameters()}
        return trained if names is None else {name: trained[name] for name in names}

    def displacement(self, name: str) -> torch.Tensor:
        """Trained less initial weights of a parameter."""
        if name not in self.initial:
            known = ", ".join(sorted(self.initial)) or "none"
            raise InputError(f"the weights of {name!r} before training are not known; known: {known}")
        weight = self.module.get_parameter(name).detach()
        return weight - self.initial[name].to(weight)

    def knowing(self, *, head: bool, body: bool) -> NetworkWeights:
        """The same network with less known of its initial weights."""
        initial = {name: each for name, each in self.initial.items() if (head if self.in_head(name) else body)}
        return replace(self, initial=initial)


def trained_names(module: nn.Module) -> tuple[str, ...]:
    """Names of the parameters that are not frozen; of all, if all are (a released model may be)."""
    moving = tuple(name for name, weight in module.named_parameters() if weight.requires_grad)
    return moving or tuple(name for name, _ in module.named_parameters())


def initial_weights(
    module: nn.Module, head: str, initial: Initial, initial_bias: InitialBias
) -> dict[str, torch.Tensor]:
    """The weights before training that are known, by name: all that a state dict holds, else the head's."""
    weights = dict(module.named_parameters())
    if isinstance(initial, Mapping):
        named = [name for name in weights if name in initial]
        return {name: finite(f"initial {name}", torch.as_tensor(initial[name]).detach()) for name in named}
    own = f"{head}." if head else ""
    known = {}
    for name, given in ((f"{own}weight", initial), (f"{own}bias", initial_bias)):
        if name in weights and not (isinstance(given, str) and given == "unknown"):
            known[name] = weights_before(f"initial {name}", weights[name].detach(), given)
    return known
