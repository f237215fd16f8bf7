"""Known architectures: exhume's own networks, with their settings read off the shapes of a state dict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise, product
from typing import Any

import torch

from exhume import networks
from exhume.errors import InputError, brief, unknown_name
from exhume.networks.resnet import MAP_SIDE

Shapes = Mapping[str, tuple[int, ...]]
# What no shape tells: it has its default unless it is given.
UNSEEN = {
    "two-layer": ("activation",),
    "mlp": ("activation",),
    "resnet": ("stem_relu",),
    "vit": ("num_heads",),
}


def known_architecture(
    name: str, config: Mapping[str, Any] | None = None, weights: Mapping[str, torch.Tensor] | None = None
) -> networks.Network:
    """One of exhume's networks, untrained; what `config` leaves out is read off the weights' shapes.

    Args:
        name: a key of `exhume.networks.NETWORKS`.
        config: settings of its constructor; they win over what the shapes say.
        weights: the state dict that it is going to hold.
    """
    if name not in networks.NETWORKS:
        raise unknown_name("architecture", brief(name, 80), networks.NETWORKS)
    guessed = {} if weights is None else guess_config(name, weights)
    try:
        return networks.build(name, {**guessed, **(config or {})})
    except (TypeError, RuntimeError, OverflowError, MemoryError) as error:
        raise InputError(f"{name} cannot be built with these settings: {brief(error)}") from error


def guess_config(name: str, weights: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """The settings of a known architecture as far as its state dict shows them."""
    if name not in _GUESSES:
        raise unknown_name("architecture", brief(name, 80), _GUESSES)
    try:
        return _GUESSES[name]({key: tuple(tensor.shape) for key, tensor in weights.items()})
    except (KeyError, ValueError, IndexError) as error:
        there = ", ".join(brief(key, 40) for key in list(weights)[:5])
        raise InputError(
            f"these weights are not those of a {name} of exhume ({type(error).__name__}: {brief(error)}); "
            f"they start with {there}; name a model file and its factory instead, as mymodel.py:build"
        ) from error


def assumed_settings(network: networks.Network) -> tuple[str, ...]:
    """The settings that no state dict shows, with the values they have, for a report to state."""
    return tuple(f"{setting} = {network.config[setting]}" for setting in UNSEEN.get(network.name, ()))


def _two_layer(shapes: Shapes) -> dict[str, Any]:
    width, inputs = shapes["first.weight"]
    return {"input_dim": inputs, "width": width, "num_outputs": _outputs(shapes, width)}


def _mlp(shapes: Shapes) -> dict[str, Any]:
    _, inputs = shapes["layers.0.weight"]
    widths = [shapes[f"layers.{layer}.weight"][0] for layer in range(_count(shapes, "layers"))]
    for layer, (before, after) in enumerate(pairwise([inputs, *widths])):
        _expect(shapes, f"layers.{layer}.weight", (after, before))
    return {"input_dim": inputs, "hidden": widths, "num_outputs": _outputs(shapes, widths[-1])}


def _resnet(shapes: Shapes) -> dict[str, Any]:
    channels, depth, kernel, _ = shapes["stem.weight"]
    side, blocks = kernel + MAP_SIDE - 3, _count(shapes, "blocks")
    for block, layer in product(range(blocks), ("inner", "outer")):
        _expect(shapes, f"blocks.{block}.{layer}.weight", (channels, channels, 3, 3))
    outputs = _outputs(shapes, channels * MAP_SIDE**2)
    return {"image_shape": [depth, side, side], "channels": channels, "num_outputs": outputs, "blocks": blocks}


def _vit(shapes: Shapes) -> dict[str, Any]:
    width, channels, patch, _ = shapes["embedding.weight"]
    _, tokens, _ = shapes["positions"]
    side, depth = patch * math.isqrt(max(0, tokens - 1)), _count(shapes, "blocks")
    _expect(shapes, "positions", (1, (side // patch) ** 2 + 1, width))
    sides = {
        "attention.queries_keys_values": (3 * width, width),
        "attention.output": (width, width),
        "widen": (4 * width, width),
        "narrow": (width, 4 * width),
    }
    for block, (layer, shape) in product(range(depth), sides.items()):
        _expect(shapes, f"blocks.{block}.{layer}.weight", shape)
    return {
        "image_shape": [channels, side, side],
        "width": width,
        "num_outputs": _outputs(shapes, width),
        "patch": patch,
        "depth": depth,
        "head_bias": "head.bias" in shapes,
    }


def _outputs(shapes: Shapes, num_features: int) -> int:
    """How many outputs the head has, if it reads so many features."""
    outputs, _ = shapes["head.weight"]
    _expect(shapes, "head.weight", (outputs, num_features))
    return outputs


def _expect(shapes: Shapes, name: str, shape: tuple[int, ...]) -> None:
    """Refuses another shape here, so that few bytes of weights never build a large network."""
    if shapes[name] != shape:
        raise ValueError(f"{name} is {shapes[name]} where {shape} would fit")


def _count(shapes: Shapes, group: str) -> int:
    """How many numbered layers a group has: "blocks.0.", "blocks.1.", and so on."""
    return len({name.split(".")[1] for name in shapes if name.startswith(f"{group}.")})


_GUESSES: dict[str, Callable[[Shapes], dict[str, Any]]] = {
    "two-layer": _two_layer,
    "mlp": _mlp,
    "resnet": _resnet,
    "vit": _vit,
}
