"""The fastest feature map of a module, and maps built again from files."""

from __future__ import annotations

import math
from typing import Any

import torch

from exhume import networks
from exhume.errors import FileError, brief, unknown_name
from exhume.features.first_layer import as_first_layer
from exhume.features.matrix import usable
from exhume.features.module import KIND as MODULE
from exhume.features.module import ModuleFeatureMap
from exhume.features.protocol import FeatureMap
from exhume.features.random_features import KIND as RANDOM_FEATURES
from exhume.features.random_features import RandomFeatureMap

# Settings that count layers; the others count numbers.
_REPEATED = ("blocks", "depth")


def fastest(body: ModuleFeatureMap) -> FeatureMap:
    """The module's features as act(W x + b) if they are, which is much faster; else as given."""
    return body if body.bias else as_first_layer(body) or body


def build_features(
    value: dict[str, Any], weights: dict[str, torch.Tensor], shape: tuple[int, ...], **options: Any
) -> FeatureMap:
    """The feature map that a file describes; `FileError` if the description is incomplete or does not fit the weights.

    Args:
        value: the description, as `to_json` of a map wrote it.
        weights: of the network, by name; random features have none.
        shape: of one input.
        options: memory_budget and device.
    """
    kind = value.get("kind") if isinstance(value, dict) else value
    if kind == RANDOM_FEATURES:
        return RandomFeatureMap.from_json(value, **options)
    if kind != MODULE:
        raise unknown_name("kind of features", kind, (RANDOM_FEATURES, MODULE))
    try:
        _check_fits(value["architecture"], value["config"], weights, shape)
        network = networks.build(value["architecture"], value["config"])
        network.to(next((weight.dtype for weight in weights.values()), torch.float32)).load_state_dict(weights)
        head, bias = str(value["head"]), bool(value["bias"])
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise FileError(f"the description of the network does not fit its weights: {brief(error)}") from error
    network = network.to(usable(options["device"])).eval()
    return fastest(ModuleFeatureMap(network, head, shape, bias=bias, memory_budget=options["memory_budget"]))


def _check_fits(name: Any, config: Any, weights: dict[str, torch.Tensor], shape: tuple[int, ...]) -> None:
    """Refuses a description that a few words make larger than its weights, before it takes any memory."""
    if not isinstance(config, dict):
        raise TypeError(f"config is a {type(config).__name__}")
    most, layers = max(1, sum(weight.numel() for weight in weights.values())), len(weights)
    for setting, value in config.items():
        sizes = value if isinstance(value, list) else [value]
        limit = layers if setting in _REPEATED else most
        if len(sizes) > max(3, layers) or any(isinstance(size, int) and size > limit for size in sizes):
            raise ValueError(f"{setting} is {brief(value, 80)}")
    with torch.device("meta"):
        network = networks.build(str(name), config)
    claimed = {key: tuple(each.shape) for key, each in network.state_dict().items()}
    if claimed != {key: tuple(each.shape) for key, each in weights.items()}:
        raise ValueError("names or shapes differ")
    if math.prod(shape) != math.prod(network.input_shape) or min(shape, default=0) < 1:
        raise ValueError(f"input_shape is {brief(shape, 80)}")
