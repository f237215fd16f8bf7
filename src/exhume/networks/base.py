"""The base of all networks: a body that makes features, and a linear head on top of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar, cast

import torch
from torch import Tensor, nn

from exhume.errors import InputError

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


class Network(nn.Module, ABC):
    """f(x) = head(features(x)): the architecture is public, the weights come from a seed or a state dict.

    Attributes:
        name: what the registry finds it by.
        head: the last layer, the one whose displacement an attack reads.
        input_shape: shape of one input.
        activation: name of its activation, which decides whether norms of inputs show in the features.
    """

    name: ClassVar[str]
    head: nn.Linear
    input_shape: tuple[int, ...]
    activation: str

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The constructor's arguments but the seed, as plain JSON values: `build(name, config)` makes it again."""

    @abstractmethod
    def body(self, inputs: Tensor) -> Tensor:
        """Features (m, p) of inputs (m, *input_shape)."""

    def features(self, inputs: Tensor) -> Tensor:
        """phi(x), what the head reads: (m, p) from (m, *input_shape), or from the same numbers in another shape."""
        return self.body(self._shaped(inputs))

    def forward(self, inputs: Tensor) -> Tensor:
        """f(x): (m, k) from (m, *input_shape), or from the same numbers in another shape, such as rows (m, d)."""
        return self.head(self.features(inputs))

    @property
    def num_outputs(self) -> int:
        """k."""
        return self.head.out_features

    @property
    def num_features(self) -> int:
        """p, the numbers that the head reads; the paper's p^(L) is k p."""
        return self.head.in_features

    def _shaped(self, inputs: Tensor) -> Tensor:
        size = math.prod(self.input_shape)
        if inputs.ndim < 2 or inputs.shape[1:].numel() != size:
            raise InputError(
                f"inputs of shape {tuple(inputs.shape)} do not fit a {self.name} network; "
                f"valid: (m, {', '.join(map(str, self.input_shape))}) or any other shape of m times {size} numbers"
            )
        return inputs.reshape(-1, *self.input_shape)


def gaussian_linear(inputs: int, outputs: int, generator: torch.Generator, *, bias: bool = False) -> nn.Linear:
    """A linear layer with weights N(0, 1/inputs), i.i.d., and a bias of zero if any."""
    # skip_init: torch's own initialisation would draw from the global generator, and be thrown away.
    layer = cast(nn.Linear, nn.utils.skip_init(nn.Linear, inputs, outputs, bias=bias))
    return _filled(layer, inputs, generator)


def gaussian_convolution(
    inputs: int,
    outputs: int,
    kernel: int,
    generator: torch.Generator,
    *,
    variance_of: int,
    stride: int = 1,
    padding: int = 0,
    bias: bool = False,
) -> nn.Conv2d:
    """A convolution with weights N(0, 1/variance_of), i.i.d., and a bias of zero if any."""
    layer = cast(
        nn.Conv2d,
        nn.utils.skip_init(nn.Conv2d, inputs, outputs, kernel, stride=stride, padding=padding, bias=bias),
    )
    return _filled(layer, variance_of, generator)


def _filled(layer: Layer, variance_of: int, generator: torch.Generator) -> Layer:
    with torch.no_grad():
        layer.weight.normal_(0.0, 1.0 / math.sqrt(variance_of), generator=generator)
        if layer.bias is not None:
            layer.bias.zero_()
    return layer
