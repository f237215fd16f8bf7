"""Networks of one hidden layer, act(W x + b): one-layer features whose matrix was trained."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import nn

from exhume import activations
from exhume.activations import Activation
from exhume.errors import InputError
from exhume.features.find_head import input_of, run
from exhume.features.matrix import DenseMatrix, RowMatrix
from exhume.features.module import ModuleFeatureMap, probe_inputs
from exhume.features.one_layer import OneLayerMap
from exhume.features.pass_counter import PassCounter
from exhume.features.protocol import Saveable

# How well act(W x + b) must match the body's own features, relative to them.
_SAME = 1e-5


class FirstLayerMap(OneLayerMap, Saveable):
    """act(W x + b) for a trained first layer.

    Args:
        matrix, activation, dtype, offset, counter: as for any one-layer map.
        origin: the feature map of the whole module.

    Attributes:
        input_scale: how much longer the inputs of the layer are than those of this map, where those are reduced.
    """

    input_scale = 1.0

    def __init__(
        self,
        matrix: RowMatrix,
        activation: str | Activation,
        dtype: torch.dtype = torch.float32,
        *,
        offset: torch.Tensor | None = None,
        origin: ModuleFeatureMap | None = None,
        counter: PassCounter | None = None,
    ) -> None:
        super().__init__(matrix, activation, dtype, offset=offset, counter=counter)
        self._origin = origin

    @property
    def module(self) -> nn.Module | None:
        """The network that this is the first layer of, if it is of one."""
        return None if self._origin is None else self._origin.module

    def in_basis(self, basis: torch.Tensor, scale: float) -> Self:
        """As for any one-layer map; the layer's own inputs stay as they are."""
        other = super().in_basis(basis, scale)
        other._origin, other.input_scale = None, scale * self.input_scale
        return other

    def identity(self) -> str:
        """That of the module, or a hash of the weights."""
        return super().identity() if self._origin is None else self._origin.identity()

    def to_json(self) -> dict[str, Any]:
        """The description of the module that this is a part of."""
        if self._origin is None:
            raise InputError("a first layer is saved with its module, and this one was made without a module")
        return self._origin.to_json()

    def tensors(self) -> dict[str, torch.Tensor]:
        """The weights of the module that this is a part of."""
        return {} if self._origin is None else self._origin.tensors()

    def drift(self, inputs: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
        """act'_i o sum_j (x_i . x_j) act'_j o c_j, and 1 more than x_i . x_j if the layer has a bias."""
        inputs = self.checked(inputs)
        slopes = self.linearise(inputs).slopes
        kernel = self.input_scale**2 * inputs @ inputs.T + (1.0 if self.has_offset else 0.0)
        return slopes * (kernel @ (slopes * cotangents))


def as_first_layer(body: ModuleFeatureMap) -> FirstLayerMap | None:
    """The module's features as act(W x + b), if a forward pass over a few inputs shows that they are."""
    module, inputs = body.module, probe_inputs(body.module, body.input_shape)
    inputs = torch.cat([inputs, 20 * inputs])  # some activations differ from others only far out
    features = body.forward(inputs.reshape(len(inputs), -1))
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear) and layer is not body.layer]
    if len(layers) != 1 or layers[0].out_features != features.shape[1]:
        return None
    (first,) = layers
    with input_of(first) as caught:
        run(module, inputs)
    if len(caught) != 1 or not torch.equal(caught[0].reshape(len(inputs), -1), inputs.reshape(len(inputs), -1)):
        return None
    weight = first.weight.detach()
    if weight.dtype not in (torch.float32, torch.float64):
        return None
    offset = None if first.bias is None else first.bias.detach()
    linear = inputs.reshape(len(inputs), -1) @ weight.T + (0 if offset is None else offset)
    for name in activations.names():
        deviation = (activations.get(name).value(linear) - features).norm()
        if float(deviation) <= _SAME * float(features.norm()):
            return FirstLayerMap(DenseMatrix(weight), name, weight.dtype, offset=offset, origin=body)
    return None
