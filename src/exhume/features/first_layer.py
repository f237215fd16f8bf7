"""Networks of one hidden layer, phi(x) = act(W x + b): random features whose matrix was trained."""

from __future__ import annotations

import hashlib
from typing import Any, Self

import torch
from torch import nn

from exhume import activations
from exhume.activations import Activation
from exhume.errors import InputError
from exhume.features.gaussian import DenseMatrix, RowMatrix
from exhume.features.heads import input_of, run
from exhume.features.random import RandomFeatureMap
from exhume.features.symmetry import Symmetry
from exhume.sharding import WHOLE, Coordinates

# How well act(W x + b) must match the body's own features, relative to them.
_SAME = 1e-5


class FirstLayerMap(RandomFeatureMap):
    """act(W x + b) for a trained first layer; all that is fast for random features is fast for it.

    Args:
        matrix: W (p, d).
        activation, dtype: as for random features.
        offset: b (p,), or None.
        origin: the whole module's feature map, which knows how to describe and to save itself.
        input_scale: how much longer the inputs of the layer are than those of this map, where those are reduced.
        coordinates: as for random features.
    """

    def __init__(
        self,
        matrix: RowMatrix,
        activation: str | Activation,
        dtype: torch.dtype = torch.float32,
        *,
        offset: torch.Tensor | None = None,
        origin: Any = None,
        input_scale: float = 1.0,
        coordinates: Coordinates = WHOLE,
    ) -> None:
        super().__init__(matrix, activation, dtype, coordinates=coordinates)
        self._offset, self._origin, self._input_scale = offset, origin, input_scale
        if offset is not None:
            self.symmetry = Symmetry()

    @property
    def has_offset(self) -> bool:  # type: ignore[override]
        """Whether the layer has a bias."""
        return self._offset is not None

    @property
    def offset(self) -> torch.Tensor | None:
        """b (p,), if there is one."""
        return self._offset

    @property
    def module(self) -> Any:
        """The network that this is the first layer of, if it is of one."""
        return None if self._origin is None else self._origin.module

    def identity(self) -> str:
        """A hash of the weights."""
        if self._origin is not None:
            return str(self._origin.identity())
        digest = hashlib.sha256(self.activation.name.encode())
        for _, part in self.matrix.chunks():
            digest.update(part.cpu().numpy().tobytes())
        return digest.hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The description of the module that this is a part of."""
        if self._origin is None:
            raise InputError("a trained first layer is described by its module, and this one has none")
        return dict(self._origin.to_json())

    def tensors(self) -> dict[str, torch.Tensor]:
        """The weights of the module that this is a part of."""
        return {} if self._origin is None else dict(self._origin.tensors())

    def drift(self, inputs: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
        """act'_i o sum_j (x_i . x_j) act'_j o c_j, and 1 more than x_i . x_j if the layer has a bias."""
        inputs = self._checked(inputs)
        slopes = self.linearise(inputs).slopes
        kernel = self._input_scale**2 * inputs @ inputs.T + (1.0 if self.has_offset else 0.0)
        return slopes * (kernel @ (slopes * cotangents))

    def _like(
        self,
        *,
        rows: slice | torch.Tensor | None = None,
        activation: str | Activation | None = None,
        dtype: torch.dtype | None = None,
    ) -> Self:
        matrix, here, coordinates = self._restricted(rows)
        offset = None if self._offset is None else self._offset[here]
        return type(self)(
            matrix,
            activation or self.activation,
            dtype or self.dtype,
            offset=offset,
            origin=self._origin,
            input_scale=self._input_scale,
            coordinates=coordinates,
        )

    def _shifted(self, linear: torch.Tensor, rows: slice) -> torch.Tensor:
        return linear if self._offset is None else linear + self._offset[rows].to(linear.dtype)


def as_first_layer(
    module: nn.Module, head: nn.Module, inputs: torch.Tensor, features: torch.Tensor, origin: Any
) -> FirstLayerMap | None:
    """The module's features as act(W x + b), if a forward pass over `inputs` shows that they are.

    Args:
        module: the network.
        head: its head.
        inputs: (m, ...) a few inputs.
        features: (m, p) what the head is given there.
        origin: the feature map of the whole module.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear) and layer is not head]
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
            return FirstLayerMap(DenseMatrix(weight), name, weight.dtype, offset=offset, origin=origin)
    return None
