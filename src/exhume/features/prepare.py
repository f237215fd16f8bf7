"""A user's module as attacks can run it: in float32, with a tensor as output, and differentiable attention."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from exhume.errors import InputError
from exhume.features.find_head import call
from exhume.features.module import probe_inputs

# Under this name models that return several values return the outputs of their head.
LOGITS = "logits"
_HALF = (torch.float16, torch.bfloat16)
_ATTENTION = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)


def prepare(module: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
    """The module itself if it can be attacked as it is, else a copy that can; its weights keep their names.

    - Half precision becomes float32: features rounded to 11 bits have no usable derivative.
    - A dict, or an object like the ModelOutput of transformers, that `forward` returns becomes its `logits`.
    - Attention takes torch's plain path: the fast one of inference has no derivative.

    Args:
        module: in eval mode.
        input_shape: shape of one input.
    """
    module = in_full_precision(module)
    name = type(module).__name__
    attends = any(isinstance(layer, _ATTENTION) for layer in module.modules())
    if attends and not any(isinstance(hook, _PlainPath) for hook in module._forward_pre_hooks.values()):
        module = copy.deepcopy(module)
        path = _PlainPath()
        module.register_forward_pre_hook(path)
        module.register_forward_hook(path.restore, always_call=True)
    outputs = call(module, probe_inputs(module, tuple(input_shape), 1))
    if isinstance(outputs, torch.Tensor):
        return module
    if not isinstance(_logits(outputs), torch.Tensor):
        found = f"a {type(outputs).__name__}"
        if isinstance(outputs, Mapping):
            found += f" with {', '.join(map(str, outputs)) or 'nothing'}"
        raise InputError(
            f"the forward pass of {name} returns {found}; valid: a tensor, or a dict or an object with {LOGITS!r}"
        )
    module = copy.deepcopy(module)
    module.register_forward_hook(lambda _module, _args, result: _logits(result))
    return module


def in_full_precision(module: nn.Module) -> nn.Module:
    """The module, or a copy in float32 if some of its weights are in half precision; one without weights is refused."""
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    empty = next((name for name, each in tensors.items() if each.is_meta), None)
    if empty is not None:
        raise InputError(
            f"{type(module).__name__} is on the meta device: {empty!r} and perhaps others have a shape and no numbers; "
            "build it on the CPU, outside of torch.device('meta') and without low_cpu_mem_usage or init_empty_weights"
        )
    half = any(each.dtype in _HALF for each in tensors.values())
    return copy.deepcopy(module).float() if half else module


def precision_note(module: nn.Module) -> tuple[str, ...]:
    """A sentence on a module whose weights are in half precision."""
    kinds = sorted({str(each.dtype).removeprefix("torch.") for each in module.parameters() if each.dtype in _HALF})
    return (f"The model is in {' and '.join(kinds)}; it was run in float32.",) if kinds else ()


def _logits(outputs: Any) -> Any:
    """`logits` of what a forward pass returned; None if it has none."""
    return outputs.get(LOGITS) if isinstance(outputs, Mapping) else getattr(outputs, LOGITS, None)


class _PlainPath:
    """Switches torch's fast path of attention off before a forward pass, and back on after it."""

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __call__(self, _module: nn.Module, _args: Any) -> None:
        self._before.append(torch.backends.mha.get_fastpath_enabled())
        torch.backends.mha.set_fastpath_enabled(False)

    def restore(self, _module: nn.Module, _args: Any, _outputs: Any) -> None:
        """After the forward pass, also one that failed."""
        torch.backends.mha.set_fastpath_enabled(self._before.pop())
