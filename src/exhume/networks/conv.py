"""Small convolutional networks with torch's own initial weights, the victims of `layers` and `replay`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from exhume.networks.base import Network, square_image
from exhume.networks.two_layer import Elementwise
from exhume.support.validation import whole_number


class Conv(Network):
    """Two 3 x 3 convolutions with biases and a linear head on all positions, or on their mean; all layers are trained.

    Args:
        image_shape: (channels, side, side) of an input.
        channels: of both convolutions.
        num_outputs: k.
        activation: name of a built-in or registered activation.
        pooled: whether the second convolution has stride 2 and the head reads the mean over positions.
        seed: of torch's global generator, under which torch fills the layers in turn.
    """

    name = "conv"

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        channels: int = 32,
        num_outputs: int = 1,
        activation: str = "relu",
        pooled: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.input_shape, self.activation, self.pooled = square_image(image_shape, 3), activation, bool(pooled)
        self.channels = whole_number("channels", channels)
        whole_number("num_outputs", num_outputs)
        self.act, side = Elementwise(activation), self.input_shape[1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.first = nn.Conv2d(self.input_shape[0], channels, 3, padding=1)
            self.second = nn.Conv2d(channels, channels, 3, padding=1, stride=2 if pooled else 1)
            self.head = nn.Linear(channels if pooled else channels * side**2, num_outputs)

    @property
    def config(self) -> dict[str, Any]:
        """The constructor's arguments but the seed."""
        names = ("channels", "num_outputs", "activation", "pooled")
        return {"image_shape": list(self.input_shape)} | {name: getattr(self, name) for name in names}

    def body(self, inputs: Tensor) -> Tensor:
        """Activations of the second convolution, flat or averaged over positions."""
        values = self.act(self.second(self.act(self.first(inputs))))
        return values.mean((2, 3)) if self.pooled else values.flatten(1)
