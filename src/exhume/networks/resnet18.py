"""The ResNet-18 for CIFAR-10 as it is usually built: 3 x 3 convolutions with BatchNorm in four stages of two blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from exhume.networks.base import Network, square_image
from exhume.support.validation import whole_number

_LEAST_SIDE = 8  # three stages halve it


class ResidualPair(nn.Module):
    """relu(shortcut(u) + bn(conv(relu(bn(conv(u)))))): He et al. 2016."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        changes = stride > 1 or inputs != outputs
        layers = [nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)] if changes else []
        self.shortcut = nn.Sequential(*layers)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (m, inputs, s, s) to (m, outputs, s / stride, s / stride)."""
        inner = torch.relu(self.bn1(self.conv1(maps)))
        return torch.relu(self.shortcut(maps) + self.bn2(self.conv2(inner)))


class ResNet18(Network):
    """A stem, four stages of c, 2 c, 4 c and 8 c channels, the mean over positions and a linear head.

    It starts in eval mode, where BatchNorm uses its stored statistics.

    Args:
        image_shape: (C, side, side), 32 x 32 for CIFAR-10.
        channels: c, 64 in the standard network.
        num_outputs: k.
        seed: of torch's global generator, under which torch fills the layers in turn.
    """

    name = "resnet18"
    activation = "relu"

    def __init__(
        self, image_shape: tuple[int, int, int], channels: int = 64, num_outputs: int = 10, seed: int = 0
    ) -> None:
        super().__init__()
        self.input_shape = square_image(image_shape, _LEAST_SIDE)
        self.channels = whole_number("channels", channels)
        whole_number("num_outputs", num_outputs)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            stem = [nn.Conv2d(self.input_shape[0], channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
            widths = [channels, *(channels * 2**stage for stage in range(4))]
            pairs = [
                nn.Sequential(ResidualPair(before, after, 1 if stage == 0 else 2), ResidualPair(after, after, 1))
                for stage, (before, after) in enumerate(pairwise(widths))
            ]
            self.stages = nn.Sequential(nn.Sequential(*stem), *pairs)
            self.head = nn.Linear(widths[-1], num_outputs)
        self.eval()

    @property
    def config(self) -> dict[str, Any]:
        """The constructor's arguments but the seed."""
        return {"image_shape": list(self.input_shape), "channels": self.channels, "num_outputs": self.num_outputs}

    def body(self, inputs: Tensor) -> Tensor:
        """Maps of the last stage, averaged over positions."""
        return self.stages(inputs).mean((2, 3))
