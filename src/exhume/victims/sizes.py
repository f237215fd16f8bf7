"""How wide a victim must be: by the law's ratio p / (d n), for the data it is to be trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from exhume import networks
from exhume.errors import InputError
from exhume.networks import Network, ResNet

# Of each network the setting that its width is, and those that take pictures only.
WIDTH_SETTINGS = {"two-layer": "width", "mlp": "hidden", "resnet": "channels", "vit": "width"}
_OF_PICTURES = ("resnet", "vit")


def features_for(ratio: float, inputs: Tensor, num_outputs: int = 1) -> float:
    """How many features a head of k outputs reads if its weights are `ratio` times d n, for inputs (n, d)."""
    if not 0 < ratio < float("inf"):
        raise InputError(f"the ratio p / (d n) must be a positive number, got {ratio}")
    return ratio * inputs.numel() / num_outputs


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
    width: int | None = None,
    settings: Mapping[str, Any],
    seed: int,
) -> Network:
    """A network with initial weights, made for the shapes of the data.

    Args:
        kind: two-layer, mlp, resnet or vit.
        inputs, labels: what it is to be trained on, (n, d), and (n,) or (n, k).
        image_shape: (C, H, W) if the inputs are pictures.
        features: how many its head should read, about; or
        width: that of its width setting, exactly.
        settings: others of the architecture.
        seed: of the initial weights.
    """
    if width is None:
        width = ResNet.channels_for(features) if kind == ResNet.name else max(1, round(features))
    config: dict[str, Any] = {WIDTH_SETTINGS[kind]: width, "num_outputs": outputs_for(labels)}
    if kind not in _OF_PICTURES:
        config["input_dim"] = inputs.shape[1]
    elif image_shape is None:
        raise InputError(f"{kind} takes pictures, and these data are none; valid: two-layer, mlp, or pictures")
    else:
        config["image_shape"] = image_shape
    return networks.build(kind, {**config, **settings}, seed)
