"""Altered copies of a target: another head, fewer features, or other weights throughout."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import nn

from exhume.errors import InputError
from exhume.features.load import fastest
from exhume.features.module import ModuleFeatureMap
from exhume.target.network_weights import NetworkWeights
from exhume.target.target import Target


def trained_head(target: Target) -> torch.Tensor:
    """The released head (k, p); its last column is the bias if `uses_bias`."""
    return target.displacement if target.trained_head is None else target.trained_head


def uses_bias(target: Target) -> bool:
    """Whether the last column of the head is its bias."""
    return bool(getattr(target.feature_map, "bias", False))


def owner_initial_head(target: Target) -> torch.Tensor | None:
    """The head (k, p) before training as its owner knows it, also where the attacker does not; None if nobody does."""
    if target.trained_head is None:
        return torch.zeros_like(target.displacement)
    if target.knowledge.initial_head != "unknown":
        return _assumed_initial(target)
    model = target.model
    if model is None or any(name not in model.initial for name in _head_names(target, model)):
        return None
    return _head_among(model.initial, target, model).to(target.displacement)


def body_saw_the_data(target: Target) -> bool:
    """Whether training changed more than the head."""
    return target.model is not None and any(not target.model.in_head(name) for name in target.model.trained)


def outputs_of(target: Target, inputs: torch.Tensor) -> torch.Tensor:
    """What the head outputs for inputs (m, d): (m, k), including a bias that the target does not use."""
    features = target.features.forward(inputs.to(target.features.device, target.features.dtype))
    return target.outputs(features) + unread_bias(target)


def unread_bias(target: Target) -> torch.Tensor:
    """The part of the outputs (k,) that is not in the target's head: a bias whose initial value is unknown."""
    zero = target.displacement.new_zeros(target.num_outputs)
    if target.model is None or uses_bias(target):
        return zero
    bias = target.model.module.get_submodule(target.model.head).bias
    return bias.detach().to(zero) if isinstance(bias, torch.Tensor) else zero


def with_head(target: Target, head: torch.Tensor, kept: torch.Tensor | None = None) -> Target:
    """The target with another trained head (k, p'), on all of its features or on those at the indices `kept` (p',).

    What the attacker takes for the initial head stays. Features that are not kept are cut off: a network's head has
    zeros there.
    """
    initial, surviving = _assumed_initial(target), target.surviving
    if kept is not None:
        initial = initial[:, kept]
        surviving = kept if surviving is None else surviving[kept]
    head = head.to(initial)
    changed = replace(
        target,
        displacement=head - initial,
        surviving=surviving,
        trained_head=None if target.trained_head is None else head,
    )
    if target.model is None:
        return changed
    module = _copy_of(target.model)
    _write_head(module, target.model, changed, head)
    return _rebuilt(changed, target.model, module)


def with_weights(target: Target, change: Callable[[torch.Tensor], torch.Tensor]) -> Target:
    """The target with `change` applied to every released tensor: all of a network's, or only the head without one.

    Random features are published as a seed, so that only the head is altered.
    """
    if target.model is None:
        return with_head(target, change(trained_head(target)))
    module = _copy_of(target.model)
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(change(tensor))
    head = _head_among(dict(module.named_parameters()), target, target.model)
    moved = replace(target, displacement=head - _assumed_initial(target), trained_head=head)
    return _rebuilt(moved, target.model, module)


def _copy_of(model: NetworkWeights) -> nn.Module:
    """A copy of a network, if its head has weights that can be altered."""
    if not isinstance(getattr(model.module.get_submodule(model.head), "weight", None), nn.Parameter):
        raise InputError(f"the head {model.head!r} has no weights of its own to alter; it computes them from others")
    return copy.deepcopy(model.module)


def _assumed_initial(target: Target) -> torch.Tensor:
    """What the attacker takes for the head before training; zeros where it is unknown."""
    return trained_head(target) - target.displacement


def _rebuilt(target: Target, model: NetworkWeights, module: nn.Module) -> Target:
    """The target with the features of an altered module."""
    body = ModuleFeatureMap(module, model.head, target.input_shape, bias=uses_bias(target))
    return replace(target, feature_map=fastest(body), model=replace(model, module=body.module))


def _head_names(target: Target, model: NetworkWeights) -> list[str]:
    """The names of the head's weights and, if the target reads it, of its bias."""
    own = f"{model.head}." if model.head else ""
    return [f"{own}weight", f"{own}bias"] if uses_bias(target) else [f"{own}weight"]


def _head_among(tensors: Mapping[str, torch.Tensor], target: Target, model: NetworkWeights) -> torch.Tensor:
    """The head (k, p) among a network's tensors, as the target reads it."""
    columns = [tensors[name].detach().reshape(target.num_outputs, -1) for name in _head_names(target, model)]
    whole = torch.cat(columns, 1)
    return whole if target.surviving is None else whole[:, target.surviving]


def _write_head(module: nn.Module, model: NetworkWeights, target: Target, head: torch.Tensor) -> None:
    """Puts a head (k, p') into a module, with zeros where features were cut off."""
    weights = [module.get_parameter(name) for name in _head_names(target, model)]
    widths = [weight[0].numel() for weight in weights]
    whole = head.new_zeros((len(head), sum(widths)))
    whole[:, slice(None) if target.surviving is None else target.surviving] = head
    with torch.no_grad():
        for weight, columns in zip(weights, whole.split(widths, 1), strict=True):
            weight.copy_(columns.reshape(weight.shape))
