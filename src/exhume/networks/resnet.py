"""The residual network of appendix D.1: convolutions without biases or normalisation, on 7 x 7 maps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from exhume.networks.base import Network, gaussian_convolution, gaussian_linear, square_image
from exhume.support.randomness import generator_for
from exhume.support.validation import flag, whole_number

# The stem's kernel is chosen so that every image becomes maps of this side; for 32 x 32 it is the paper's 28 x 28.
MAP_SIDE = 7
_LEAST_SIDE = 5  # a stem of kernel 1


class ResidualBlock(nn.Module):
    """B(u) = relu(u + C[relu(C[u])]) with 3 x 3 convolutions of padding 1, Eq. (165)."""

    def __init__(self, channels: int, generator: torch.Generator) -> None:
        super().__init__()
        self.inner, self.outer = (gaussian_convolution((channels, channels), 3, generator, padding=1) for _ in range(2))

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (m, h, 7, 7) to maps of the same shape."""
        return torch.relu(maps + self.outer(torch.relu(self.inner(maps))))


class ResNet(Network):
    """z_0 = C[x], z_b = B(z_(b-1)), f(x) = theta^T vec(z_4): Eq. (166), for square images of any side from 5 on.

    The stem's weights are N(0, 1/d), all others N(0, 1/fan_in). Eq. (166) has no ReLU between the stem and the first
    block, and that is the default; the public code of the paper's authors has one: `stem_relu`.

    Args:
        image_shape: (C, side, side).
        channels: h; the head reads 49 h features.
        num_outputs: k; the paper trains one output on labels -1 and +1.
        blocks: residual blocks, 4 in the paper.
        stem_relu: whether a ReLU follows the stem.
        seed: of the initial weights.
    """

    name = "resnet"
    activation = "relu"

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        channels: int,
        num_outputs: int = 1,
        blocks: int = 4,
        stem_relu: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        depth, side, _ = self.input_shape = square_image(image_shape, _LEAST_SIDE)
        whole_number("channels", channels)
        whole_number("num_outputs", num_outputs)
        whole_number("blocks", blocks, least=0)
        self.stem_relu = flag("stem_relu", stem_relu)
        generator = generator_for(seed, "resnet weights")
        kernel = side + 3 - MAP_SIDE
        self.stem = gaussian_convolution((depth, channels), kernel, generator, fan_in=depth * side * side, padding=1)
        self.blocks = nn.Sequential(*(ResidualBlock(channels, generator) for _ in range(blocks)))
        self.head = gaussian_linear(channels * MAP_SIDE**2, num_outputs, generator)

    @staticmethod
    def channels_for(num_features: float) -> int:
        """h = p / 49, truncated as in the paper: channels for a head that reads about so many features."""
        return max(1, int(num_features) // MAP_SIDE**2)

    @property
    def config(self) -> dict[str, Any]:
        """The constructor's arguments but the seed."""
        return {
            "image_shape": list(self.input_shape),
            "channels": self.stem.out_channels,
            "num_outputs": self.num_outputs,
            "blocks": len(self.blocks),
            "stem_relu": self.stem_relu,
        }

    def body(self, inputs: Tensor) -> Tensor:
        """vec(z_4), (m, 49 h)."""
        maps = self.stem(inputs)  # (m, h, 7, 7)
        if self.stem_relu:
            maps = torch.relu(maps)
        return self.blocks(maps).flatten(1)
