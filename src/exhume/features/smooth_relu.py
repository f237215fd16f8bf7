"""ReLUs made smooth in anybody's module, so that gradients in its weights can be differentiated in its inputs.

A gradient in the weights holds relu'(z), a step; its derivative in the inputs is zero almost everywhere. Two ways out:
Haim et al. (2022) keep relu(z) and take sigmoid(alpha z) for its derivative; Loo et al. (2024) take softplus for relu
itself. Both are done here by a mode that catches the calls, whoever makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_PLAIN = {torch.relu, torch.Tensor.relu, functional.relu}
_IN_PLACE = {torch.relu_, torch.Tensor.relu_, functional.relu_}
# Beyond this beta z, softplus is z itself: to 4e-18, below rounding.
_LINEAR_FROM = 40.0

Replacement = Callable[[torch.Tensor], torch.Tensor]


class ReplaceRelu(TorchFunctionMode):
    """While it is entered, every call of relu, as a function, a method or a layer, becomes a call of another function.

    Args:
        replacement: from a tensor to one of the same shape.
    """

    def __init__(self, replacement: Replacement) -> None:
        super().__init__()
        self._replacement = replacement

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Called by torch in the place of every function."""
        named = dict(kwargs or {})
        if func not in _PLAIN and func not in _IN_PLACE:
            return func(*args, **named)
        values = args[0] if args else named["input"]
        if func in _IN_PLACE or named.get("inplace") or (func is functional.relu and len(args) > 1 and args[1]):
            return values.copy_(self._replacement(values.clone()))
        return self._replacement(values)


def smooth_slope(alpha: float) -> ReplaceRelu:
    """relu with its own values and the derivative sigmoid(alpha z), which has a derivative too."""
    return ReplaceRelu(lambda values: _SmoothSlope.apply(values, alpha))  # type: ignore[no-untyped-call]


def softplus(beta: float) -> ReplaceRelu:
    """log(1 + exp(beta z)) / beta in the place of relu; its derivative is sigmoid(beta z)."""
    return ReplaceRelu(lambda values: functional.softplus(values, beta=beta, threshold=_LINEAR_FROM))


def relative_softplus(sharpness: float) -> ReplaceRelu:
    """As `softplus`, with beta the sharpness over the standard deviation of each sample's values."""

    def replacement(values: torch.Tensor) -> torch.Tensor:
        own = tuple(range(1, values.ndim))
        beta = sharpness / values.detach().std(own, correction=0, keepdim=True).clamp_min(1e-30)
        return functional.softplus(beta * values, threshold=_LINEAR_FROM) / beta

    return ReplaceRelu(replacement)


def scaled_gelu(beta: float) -> ReplaceRelu:
    """gelu(beta z) / beta in the place of relu: within 0.17 / beta of it, and equal at zero, where softplus is not."""
    return ReplaceRelu(lambda values: functional.gelu(beta * values) / beta)


class _SmoothSlope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, alpha: float) -> torch.Tensor:
        ctx.save_for_backward(values)
        ctx.alpha = alpha
        return torch.relu(values)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor, None]:
        (values,) = ctx.saved_tensors
        return cotangents[0] * torch.sigmoid(ctx.alpha * values), None
