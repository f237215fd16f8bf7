"""The first layer of a network: where it is, what is done to the input before it, and the activation after it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from exhume.errors import InputError
from exhume.features.find_head import input_of, run
from exhume.features.module import probe_inputs

# Inputs that the layer is tried on: two show a normalisation by constants, the others confirm it.
_PROBES = 6
# How far the layer's input may be from a normalised one, relative to its size.
_SAME = 1e-4
# Share of active neurons that must send something back for the activation to be a ReLU.
_SENT_BACK = 0.5


@dataclass(frozen=True)
class FirstLayer:
    """The layer that is given the input, or the input normalised by constants: scale * x + shift.

    Attributes:
        name: as in `module.named_modules()`.
        layer: a linear layer or a convolution.
        scale, shift: one number for each of the d inputs.
    """

    name: str
    layer: nn.Linear | nn.Conv2d
    scale: torch.Tensor
    shift: torch.Tensor

    @property
    def normalises(self) -> bool:
        """Whether the layer is given something else than the input itself."""
        return bool((self.scale != 1).any()) or bool((self.shift != 0).any())

    def parameter(self, name: str) -> str:
        """The full name of the layer's weight or bias."""
        return f"{self.name}.{name}" if self.name else name


def first_layer(module: nn.Module, input_shape: tuple[int, ...]) -> FirstLayer:
    """The linear layer or convolution that is given the input, perhaps normalised by constants."""
    probes = probe_inputs(module, input_shape, _PROBES)
    flat = probes.reshape(_PROBES, -1)
    for name, layer in module.named_modules():
        if not isinstance(layer, nn.Linear | nn.Conv2d):
            continue
        with input_of(layer) as caught:
            run(module, probes)
        if len(caught) != 1 or caught[0].numel() != flat.numel() or len(caught[0]) != _PROBES:
            continue
        given = caught[0].reshape(_PROBES, -1)
        if torch.equal(given, flat):
            return FirstLayer(name, layer, torch.ones_like(flat[0]), torch.zeros_like(flat[0]))
        scale = (given[0] - given[1]) / (flat[0] - flat[1])
        shift = given[0] - scale * flat[0]
        if float((scale * flat + shift - given).norm()) <= _SAME * float(given.norm()) and bool((scale != 0).all()):
            return FirstLayer(name, layer, scale, shift)
    raise InputError(
        f"no linear layer or convolution of {type(module).__name__} is given the input itself (patches may come "
        "first), so that its displacement does not show the span of the data; give a subspace"
    )


def is_followed_by_relu(module: nn.Module, layer: nn.Module, input_shape: tuple[int, ...]) -> bool:
    """Whether inactive neurons of a layer, and only they, pass nothing on: no derivative of the outputs by them."""
    values, sent_back = _sent_back(module, layer, input_shape)
    inactive, sends = values < 0, sent_back != 0
    return not bool(sends[inactive].any()) and float(sends[~inactive].float().mean()) > _SENT_BACK


def is_followed_by_curve(module: nn.Module, layer: nn.Module, input_shape: tuple[int, ...]) -> bool:
    """Whether what is sent back to a layer changes with its values other than in jumps, as behind GELU or tanh."""
    values, sent_back = _sent_back(module, layer, input_shape, again=True)
    if not sent_back.requires_grad:
        return False
    (bend,) = torch.autograd.grad(sent_back.square().sum(), values, allow_unused=True)
    return bend is not None and float((bend != 0).float().mean()) > _SENT_BACK


def _sent_back(
    module: nn.Module, layer: nn.Module, input_shape: tuple[int, ...], *, again: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """A layer's values at random inputs, and the derivative of the outputs by them; `again` if it is derived again."""
    kept: list[torch.Tensor] = []

    def keep(_layer: nn.Module, _args: object, output: torch.Tensor) -> torch.Tensor:
        kept.append(output.detach().requires_grad_())
        return kept[0].clone()  # the activation may work in place

    handle = layer.register_forward_hook(keep)
    try:
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):  # the other kernels have no second derivative
            outputs = module(probe_inputs(module, input_shape, _PROBES))
            weights = torch.linspace(1, 2, outputs.numel()).to(outputs).reshape(outputs.shape)
            (sent_back,) = torch.autograd.grad((outputs * weights).sum(), kept[0], create_graph=again)
    finally:
        handle.remove()
    return kept[0], sent_back
