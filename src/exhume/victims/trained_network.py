"""Networks as victims: built for the data that they are to be trained on, and the target that a trained one makes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from exhume import networks
from exhume.errors import InputError
from exhume.networks import Conv, Network, ResNet, ResNet18
from exhume.support.validation import positive_number
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target
from exhume.training.gradient_descent import Training

# The setting of each network that is its width, and the networks that take images only.
_OF_IMAGES = ("conv", "resnet", "resnet18", "vit")
WIDTH_SETTINGS = {"two-layer": "width", "mlp": "hidden", "vit": "width"} | dict.fromkeys(_OF_IMAGES[:-1], "channels")


def features_for(ratio: float, inputs: Tensor, num_outputs: int = 1) -> float:
    """p / k: how many features a head of k outputs needs so that its p weights are `ratio` times d n, inputs (n, d)."""
    return positive_number("the ratio p / (d n)", ratio) * inputs.numel() / num_outputs


def outputs_for(labels: Tensor) -> int:
    """k, for labels (n,) or (n, k)."""
    return 1 if labels.ndim == 1 else labels.shape[1]


def network_for(
    kind: str,
    inputs: Tensor,
    labels: Tensor,
    *,
    image_shape: tuple[int, ...] | None,
    features: float,
    settings: Mapping[str, Any],
    seed: int,
) -> Network:
    """A network with initial weights, made for the shapes of the data.

    Args:
        kind: two-layer, mlp, conv, resnet, resnet18 or vit.
        inputs, labels: what it is to be trained on, (n, d), and (n,) or (n, k).
        image_shape: (C, H, W) if the inputs are images.
        features: about how many its head should read, unless the settings give its width.
        settings: of the architecture.
        seed: of the initial weights.
    """
    if kind == Conv.name and image_shape is not None and not settings.get("pooled"):
        features /= math.prod(image_shape[1:])  # a channel has a feature at every position
    if kind == ResNet18.name:
        features /= 8  # channels of the last stage, over those of the first
    width = ResNet.channels_for(features) if kind == ResNet.name else max(1, round(features))
    config: dict[str, Any] = {WIDTH_SETTINGS[kind]: width, "num_outputs": outputs_for(labels)}
    if kind not in _OF_IMAGES:
        config["input_dim"] = inputs.shape[1]
    elif image_shape is None:
        raise InputError(f"{kind} takes images, and these data are not; valid: two-layer, mlp, or images")
    else:
        config["image_shape"] = image_shape
    return networks.build(kind, {**config, **settings}, seed)


def target(training: Training, *, input_shape: tuple[int, ...] = (), knowledge: Knowledge | None = None) -> Target:
    """The target that a trained network and its initial weights make.

    Gradient descent with weight decay ends at W(T) = s W(0) + A^T Phi, s = `training.decay`: only with s W(0) taken
    off is the rest in the span of features, so s W(0) is taken for the initial weights here. Without decay s = 1.

    Args:
        training: what `train` returned.
        input_shape: shape of one input, if it is another than the network's: a two-layer network takes flat rows of
            what may be images.
        knowledge: what the attacker is assumed to know besides; by default nothing.
    """
    return Target.last_layer(
        training.network,
        head="head",
        initial_head={name: training.decay * weight for name, weight in training.initial.items()},
        input_shape=tuple(input_shape) or training.network.input_shape,
        knowledge=knowledge,
    )
