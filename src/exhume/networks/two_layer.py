"""The two-layer network of section 5.2: f(x) = W2 act(W1 x)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from exhume import activations
from exhume.networks.base import Network, gaussian_linear
from exhume.support.randomness import generator_for
from exhume.support.validation import whole_number


class Elementwise(nn.Module):
    """An activation of exhume's registry as a layer."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._value = activations.get(name).value

    def forward(self, values: Tensor) -> Tensor:
        """act(z), entry by entry."""
        return self._value(values)

    def extra_repr(self) -> str:
        """The activation's name, for printing the network."""
        return self.name


class TwoLayer(Network):
    """f(x) = W2 act(W1 x), without biases; W1 ~ N(0, 1/d) and W2 ~ N(0, 1/h) i.i.d., trained both.

    Args:
        input_dim: d.
        width: h; the head has p^(L) = k h weights.
        num_outputs: k.
        activation: name of a built-in or registered activation.
        seed: of the initial weights.
    """

    name = "two-layer"

    def __init__(
        self, input_dim: int, width: int, num_outputs: int = 1, activation: str = "relu", seed: int = 0
    ) -> None:
        super().__init__()
        self.input_shape = (whole_number("input_dim", input_dim),)
        whole_number("width", width)
        whole_number("num_outputs", num_outputs)
        self.activation = activation
        generator = generator_for(seed, "two-layer weights")
        self.act = Elementwise(activation)
        self.first = gaussian_linear(input_dim, width, generator)
        self.head = gaussian_linear(width, num_outputs, generator)

    @property
    def config(self) -> dict[str, Any]:
        """The constructor's arguments but the seed."""
        return {
            "input_dim": self.input_shape[0],
            "width": self.num_features,
            "num_outputs": self.num_outputs,
            "activation": self.activation,
        }

    def body(self, inputs: Tensor) -> Tensor:
        """act(W1 x)."""
        return self.act(self.first(inputs))
