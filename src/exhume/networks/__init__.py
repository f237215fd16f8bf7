"""Network architectures by name, with initial weights from a seed; `exhume.training` trains them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from exhume.errors import InputError
from exhume.networks.base import Network
from exhume.networks.conv import Conv
from exhume.networks.mlp import MLP
from exhume.networks.resnet import ResNet
from exhume.networks.resnet18 import ResNet18
from exhume.networks.two_layer import TwoLayer
from exhume.networks.vit import VisionTransformer
from exhume.support.validation import one_of

NETWORKS: dict[str, type[Network]] = {
    network.name: network for network in (TwoLayer, MLP, Conv, ResNet, ResNet18, VisionTransformer)
}


def build(name: str, config: Mapping[str, Any], seed: int = 0) -> Network:
    """A network by its name and its constructor's arguments, as `Network.config` gives them.

    Args:
        name: a key of `NETWORKS`.
        config: the constructor's arguments but the seed.
        seed: of the initial weights; it does not matter if a state dict is loaded afterwards.
    """
    network = NETWORKS[one_of("network", name, NETWORKS)]
    parameters = dict(inspect.signature(network).parameters)
    del parameters["seed"]
    required = [key for key, parameter in parameters.items() if parameter.default is parameter.empty]
    wrong = sorted(set(config) - set(parameters))
    missing = [key for key in required if key not in config]
    if wrong or missing:
        problem = f"has no setting {', '.join(wrong)}" if wrong else f"needs {', '.join(missing)}"
        raise InputError(f"{name} {problem}; valid: {', '.join(parameters)}, of which needed: {', '.join(required)}")
    return network(**config, seed=seed)


__all__ = ["MLP", "NETWORKS", "Conv", "Network", "ResNet", "ResNet18", "TwoLayer", "VisionTransformer", "build"]
