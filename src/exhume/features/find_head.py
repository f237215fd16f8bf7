"""Heads: the linear layers of a module whose displacement carries training data, found and checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from exhume.errors import InputError

# How far two forward passes over the same inputs may differ, relative to their size, and count as the same.
_SAME = 1e-4


@dataclass(frozen=True)
class Head:
    """A linear layer or 1 x 1 convolution: outputs = weight features + bias.

    Attributes:
        name: as in `module.named_modules()`.
        kind: "linear" or "1x1 convolution".
    """

    name: str
    kind: str
    num_outputs: int
    num_features: int
    has_bias: bool

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}, {self.num_features} features to {self.num_outputs} outputs)"


def list_heads(module: nn.Module) -> tuple[Head, ...]:
    """All layers of a module that can be attacked as its head, in the order in which it names them."""
    heads = []
    for name, layer in module.named_modules():
        bias = getattr(layer, "bias", None) is not None
        if isinstance(layer, nn.Linear):
            heads.append(Head(name, "linear", layer.out_features, layer.in_features, bias))
        elif isinstance(layer, nn.Conv2d) and layer.kernel_size == layer.stride == (1, 1) and layer.groups == 1:
            heads.append(Head(name, "1x1 convolution", layer.out_channels, layer.in_channels, bias))
    return tuple(heads)


def find_head(module: nn.Module, name: str | None, inputs: torch.Tensor) -> Head:
    """The head of that name, or, without one, the last that a forward pass over `inputs` runs through."""
    heads = {head.name: head for head in list_heads(module)}
    if not heads:
        raise InputError(f"{type(module).__name__} has no linear layer and no 1x1 convolution that could be its head")
    if name is not None and name not in heads:
        there = "; ".join(str(head) for head in heads.values())
        raise InputError(f"{type(module).__name__} has no head {name!r}; there are: {there}")
    order: list[str] = []
    layers = dict(module.named_modules())
    handles = [
        layers[each].register_forward_pre_hook(lambda _layer, _args, each=each: order.append(each)) for each in heads
    ]
    try:
        run(module, inputs)
    finally:
        for handle in handles:
            handle.remove()
    chosen = name if name is not None else (order[-1] if order else None)
    if chosen is None or order.count(chosen) != 1:
        times = order.count(chosen) if chosen is not None else 0
        ran = f"ran {times} times" if times else "did not run"
        raise InputError(f"head {chosen or 'unknown'!r} {ran} in one forward pass; a head must run exactly once")
    return heads[chosen]


def refuse_training_mode(module: nn.Module) -> None:
    """Refuses a module with a layer in training mode, before a pass through it moves its statistics."""
    training = [name or "the module itself" for name, layer in module.named_modules() if layer.training]
    if training:
        raise InputError(
            f"{type(module).__name__} is in training mode ({training[0]}"
            f"{f' and {len(training) - 1} more' if len(training) > 1 else ''}); call .eval() on it first"
        )


def check_ready(module: nn.Module, inputs: torch.Tensor) -> None:
    """Refuses a module in training mode, with NaN weights, with a random forward pass or one that mixes samples."""
    refuse_training_mode(module)
    for name, tensor in module.state_dict().items():
        bad = int((~torch.isfinite(tensor)).sum()) if tensor.is_floating_point() else 0
        if bad:
            raise InputError(f"{bad} of {tensor.numel()} weights of {name!r} are NaN or infinite")
    first, second, alone = run(module, inputs), run(module, inputs), run(module, inputs[:1])
    if not _same(first, second):
        raise InputError(
            f"{type(module).__name__} gives different outputs for the same inputs; its forward pass must be "
            "deterministic (dropout or noise that stays on in .eval()?)"
        )
    if first.shape[:1] != inputs.shape[:1] or not _same(first[:1], alone):
        raise InputError(
            f"{type(module).__name__} gives a sample another output in another batch; every sample must be "
            "computed by itself (batch statistics that stay on in .eval()?)"
        )


def call(module: nn.Module, inputs: torch.Tensor) -> Any:
    """What the module returns, without a graph; an error of its forward is raised again with the inputs' shape."""
    try:
        with torch.no_grad():
            return module(inputs.clone())
    except Exception as error:  # a user's forward may raise anything
        raise InputError(
            f"the forward pass of {type(module).__name__} fails on inputs of shape {tuple(inputs.shape)}: "
            f"{type(error).__name__}: {error}{token_hint(module)}"
        ) from error


def token_hint(module: nn.Module) -> str:
    """For messages on a module that could not be run: whether its inputs may be whole numbers."""
    name = next((name for name, each in module.named_modules() if isinstance(each, nn.Embedding | nn.EmbeddingBag)), "")
    if not name:
        return ""
    return (
        f". {name!r} is an embedding: if the model reads tokens (whole numbers), it cannot be attacked, because the "
        "attack follows derivatives by the inputs and tokens have none; give a module that begins after the embedding"
    )


def run(module: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """The module's outputs, which must be a tensor."""
    outputs = call(module, inputs)
    if not isinstance(outputs, torch.Tensor):
        raise InputError(f"the forward pass of {type(module).__name__} returns a {type(outputs).__name__}, no tensor")
    return outputs


@contextmanager
def input_of(layer: nn.Module) -> Iterator[list[torch.Tensor]]:
    """Collects what a layer is given while the block runs."""
    caught: list[torch.Tensor] = []

    def catch(_layer: nn.Module, args: tuple[torch.Tensor, ...], kwargs: dict[str, torch.Tensor]) -> None:
        caught.append(args[0] if args else kwargs["input"])

    handle = layer.register_forward_pre_hook(catch, with_kwargs=True)
    try:
        yield caught
    finally:
        handle.remove()


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape:
        return False
    return float((one - other).norm()) <= _SAME * float(one.norm())
