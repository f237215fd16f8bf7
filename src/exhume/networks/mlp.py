"""Multi-layer perceptrons without biases: homogeneous in all weights, the victims of the KKT and NTK attacks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from exhume.errors import InputError
from exhume.networks.base import Network, gaussian_linear
from exhume.networks.two_layer import Elementwise
from exhume.support.randomness import generator_for
from exhume.support.validation import positive_number, whole_number

_LAYERS = 2  # hidden ones, if only a width is given


class MLP(Network):
    """f(x) = W_L act(... act(W_1 x)), weights N(0, 1/fan_in) i.i.d., those of W_1 times `first_scale`; all trained.

    Haim et al. (2022) train two hidden layers of 1000 from a first layer scaled by 1e-4, which makes what is left of
    the initial weights small; Loo et al. (2024) train two hidden layers of up to 4096 unscaled.

    Args:
        input_dim: d.
        hidden: widths of the hidden layers; a single number is the width of two.
        num_outputs: k.
        activation: name of a built-in or registered activation.
        first_scale: factor of the first layer's initial weights.
        seed: of the initial weights.
    """

    name = "mlp"

    def __init__(
        self,
        input_dim: int,
        hidden: int | Sequence[int] = (1000, 1000),
        num_outputs: int = 1,
        activation: str = "relu",
        first_scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.input_shape = (whole_number("input_dim", input_dim),)
        whole_number("num_outputs", num_outputs)
        self.hidden, self.activation = _widths(hidden), activation
        self.first_scale = positive_number("first_scale", first_scale)
        generator = generator_for(seed, "mlp weights")
        self.act = Elementwise(activation)
        sides = (input_dim, *self.hidden)
        self.layers = nn.ModuleList(gaussian_linear(before, after, generator) for before, after in pairwise(sides))
        self.head = gaussian_linear(sides[-1], num_outputs, generator)
        with torch.no_grad():
            self.layers[0].get_parameter("weight").mul_(self.first_scale)

    @property
    def config(self) -> dict[str, Any]:
        """The constructor's arguments but the seed."""
        return {
            "input_dim": self.input_shape[0],
            "hidden": list(self.hidden),
            "num_outputs": self.num_outputs,
            "activation": self.activation,
            "first_scale": self.first_scale,
        }

    def body(self, inputs: Tensor) -> Tensor:
        """act(W_(L-1) ... act(W_1 x))."""
        values = inputs
        for layer in self.layers:
            values = self.act(layer(values))
        return values


def _widths(hidden: object) -> tuple[int, ...]:
    """The widths of the hidden layers, checked."""
    if isinstance(hidden, (list, tuple)) and hidden:
        return tuple(whole_number("hidden", width) for width in hidden)
    if isinstance(hidden, (list, tuple)):
        raise InputError("hidden is empty; valid: at least one width")
    return (whole_number("hidden", hidden),) * _LAYERS
