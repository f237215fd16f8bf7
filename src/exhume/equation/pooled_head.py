"""A convolution whose outputs, each channel by itself, become the features of the head: a pooled head.

Whether a network ends so is seen from what it computes, not from the names of its layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from exhume.equation.trained_network import TrainedNetwork, Weights
from exhume.features.smooth_relu import scaled_gelu

# Random inputs on which a network is tried, and how far its derivatives may be from those of separate channels.
_TRIED, _SEPARATE = 4, 1e-4


@dataclass(frozen=True)
class PooledHead:
    """The convolution that a pooled head reads.

    Attributes:
        network: at both ends of training.
        convolution, head: names of the two layers.
        scale: standard deviation of the convolution's outputs at random inputs; ReLUs are made smooth in its units.
    """

    network: TrainedNetwork
    convolution: str
    head: str
    scale: float = 1.0

    @property
    def layer(self) -> nn.Conv2d:
        """The convolution."""
        found = self.network.module.get_submodule(self.convolution)
        assert isinstance(found, nn.Conv2d)
        return found

    def patches_and_slopes(
        self, weights: Weights, samples: torch.Tensor, sharpness: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What the convolution reads at every position, (m, K, P), and d(feature o) / d(its output o), (m, o, P).

        The last of K is 1 if the convolution has a bias. ReLUs of the whole network become gelu(beta z) / beta with
        beta the sharpness over the scale.
        """
        inputs, outputs, features = self._caught(weights, samples, sharpness)
        (slopes,) = torch.autograd.grad(features.sum(), outputs, create_graph=samples.requires_grad)
        layer = self.layer
        assert not isinstance(layer.padding, str)
        patches = functional.unfold(inputs, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
        if layer.bias is not None:
            patches = torch.cat([patches, torch.ones_like(patches[:, :1])], 1)
        return patches, slopes.flatten(2)

    def flat(self, weights: Weights) -> torch.Tensor:
        """The convolution's weights of every output channel, and its bias behind them: (o, K)."""
        parts = [weights[f"{self.convolution}.weight"].flatten(1)]
        if self.layer.bias is not None:
            parts.append(weights[f"{self.convolution}.bias"][:, None])
        return torch.cat(parts, 1)

    def is_separate(self, samples: torch.Tensor) -> bool:
        """Whether the head reads one feature of every channel of the convolution, which has several positions."""
        _, outputs, features = self._caught(self.network.after, samples, 1.0)
        if features.ndim != 2 or outputs.shape[1] != features.shape[1] or outputs[0, 0].numel() < 2:
            return False
        if not features.requires_grad:  # the head does not read the convolution
            return False
        each = torch.linspace(0.5, 2.0, features.shape[1]).to(features)
        total, weighted = (
            torch.autograd.grad((features * factors).sum(), outputs, retain_graph=True)[0]
            for factors in (torch.ones_like(each), each)
        )
        return float((weighted - each[:, None, None] * total).norm()) < _SEPARATE * float(total.norm())

    def _caught(
        self, weights: Weights, samples: torch.Tensor, sharpness: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Inputs and outputs of the convolution, and what the head reads."""
        found: dict[str, torch.Tensor] = {}

        def at_convolution(module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            found["inputs"] = args[0].clone()  # what follows may change it in place
            found["outputs"] = output if output.requires_grad else output.detach().requires_grad_()
            return found["outputs"].clone()

        def at_head(module: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
            found["features"] = args[0]

        module = self.network.module
        hooks = [
            module.get_submodule(self.convolution).register_forward_hook(at_convolution),
            module.get_submodule(self.head).register_forward_pre_hook(at_head),
        ]
        with _removed(hooks), torch.enable_grad(), scaled_gelu(sharpness / self.scale):
            self.network.outputs(weights, samples)
        return found["inputs"], found["outputs"], found["features"]


def find_pooled_head(
    network: TrainedNetwork, head: str, names: tuple[str, ...], radius: float | None = None
) -> PooledHead | None:
    """The convolution called last, if it was trained and the head reads one feature of every channel; or None.

    Inputs of norm `radius`, by default sqrt(d), show this and the scale of the convolution's outputs.
    """
    if not isinstance(network.module.get_submodule(head) if head else None, nn.Linear):
        return None
    called: list[str] = []

    def note(name: str) -> Callable[[nn.Module, object], None]:
        return lambda module, args: called.append(name if args else "")  # "" if called with keywords

    convolutions = {name: each for name, each in network.module.named_modules() if isinstance(each, nn.Conv2d)}
    like = next(iter(network.after.values()))
    numbers = torch.randn((_TRIED, *network.input_shape), generator=torch.Generator().manual_seed(0))
    samples = numbers.flatten(1).to(like)
    samples = samples * (1.0 if radius is None else radius / samples.shape[1] ** 0.5)
    with _removed([each.register_forward_pre_hook(note(name)) for name, each in convolutions.items()]):
        network.outputs(network.after, samples)
    if not called or called.count(called[-1]) > 1 or f"{called[-1]}.weight" not in names:
        return None
    layer = convolutions[called[-1]]
    plain = type(layer) is nn.Conv2d and layer.groups == 1 and layer.padding_mode == "zeros"
    biased = layer.bias is None or f"{called[-1]}.bias" in names
    if not plain or isinstance(layer.padding, str) or not biased:
        return None
    found = PooledHead(network, called[-1], head)
    if torch.equal(found.flat(network.before), found.flat(network.after)) or not found.is_separate(samples):
        return None
    scale = float(found._caught(network.after, samples, 1.0)[1].detach().std())
    return PooledHead(network, called[-1], head, scale) if 0 < scale < float("inf") else None


@contextmanager
def _removed(hooks: list[torch.utils.hooks.RemovableHandle]) -> Iterator[None]:
    """Removes hooks at the end."""
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
