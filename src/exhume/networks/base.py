"""The base class of all networks, a body that computes features and a linear head; layers with Gaussian weights."""

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
        name: its key in `NETWORKS`.
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
    channels: tuple[int, int], kernel: int, generator: torch.Generator, *, fan_in: int | None = None, **options: Any
) -> nn.Conv2d:
    """A convolution with weights N(0, 1/fan_in), i.i.d., and a bias of zero if any.

    Args:
        channels: of its inputs and of its outputs.
        kernel: side.
        generator: of the weights.
        fan_in: by default its own, the numbers of a patch.
        options: others of `torch.nn.Conv2d`; the bias must be asked for.
    """
    options.setdefault("bias", False)
    layer = cast(nn.Conv2d, nn.utils.skip_init(nn.Conv2d, *channels, kernel, **options))
    return _filled(layer, fan_in or channels[0] * kernel**2, generator)


def square_image(image_shape: Any, least_side: int) -> tuple[int, int, int]:
    """The shape (channels, side, side) as a tuple, if it is one."""
    shape = tuple(image_shape) if isinstance(image_shape, (tuple, list)) else ()
    whole = all(isinstance(side, int) and not isinstance(side, bool) and side >= 1 for side in shape)
    if len(shape) != 3 or not whole or shape[1] != shape[2] or shape[1] < least_side:
        raise InputError(
            f"image_shape is {image_shape!r}; valid: (channels, side, side) with a side of at least {least_side}"
        )
    return shape[0], shape[1], shape[2]


def _filled(layer: Layer, fan_in: int, generator: torch.Generator) -> Layer:
    with torch.no_grad():
        layer.weight.normal_(0.0, 1.0 / math.sqrt(fan_in), generator=generator)
        if layer.bias is not None:
            layer.bias.zero_()
    return layer
