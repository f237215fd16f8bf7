"""How far a module's head moved in training: its weights and bias, less their values before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from exhume.errors import InputError
from exhume.features.find_head import Head, find_head
from exhume.features.module import probe_inputs
from exhume.support.validation import finite, finite_state

Initial = torch.Tensor | Mapping[str, torch.Tensor] | Literal["zero", "unknown"]
InitialBias = torch.Tensor | Literal["zero", "unknown"]


@dataclass(frozen=True)
class HeadMove:
    """A head before and after training.

    Attributes:
        head: which layer.
        trained: its weights (k, p), with the bias as a last column if that is used.
        displacement: likewise, less the initial weights.
        initial: whether those are known.
        uses_bias: whether there is a column for the bias.
        surviving: indices of the columns that pruning has left; None if nothing was pruned.
    """

    head: Head
    trained: torch.Tensor
    displacement: torch.Tensor
    initial: Literal["known", "zero", "unknown"]
    uses_bias: bool
    surviving: torch.Tensor | None

    def without_bias(self) -> HeadMove:
        """The same with the column of the bias left out."""
        if not self.uses_bias:
            return self
        surviving = None if self.surviving is None else self.surviving[:-1]
        return HeadMove(self.head, self.trained[:, :-1], self.displacement[:, :-1], self.initial, False, surviving)


def move_of(
    module: nn.Module, name: str | None, input_shape: tuple[int, ...], initial: Initial, initial_bias: InitialBias
) -> HeadMove:
    """The move of the named head, or of the last one."""
    head = find_head(module, name, probe_inputs(module, input_shape))
    layer = module.get_submodule(head.name)
    weight: torch.Tensor = layer.weight.detach().reshape(head.num_outputs, head.num_features)  # type: ignore[operator]
    bias: torch.Tensor | None = layer.bias.detach() if head.has_bias else None  # type: ignore[operator]
    if isinstance(initial, Mapping):
        initial, initial_bias = _from_state_dict(head, initial, initial_bias)
    before = weights_before("initial head", weight, initial)
    known: Literal["known", "zero", "unknown"] = initial if isinstance(initial, str) else "known"
    surviving = _surviving(weight, before, known)
    trained, displacement = weight, weight - before
    uses_bias = bias is not None and not (isinstance(initial_bias, str) and initial_bias == "unknown")
    if uses_bias:
        assert bias is not None
        moved = bias - weights_before("initial bias", bias, initial_bias)
        trained = torch.cat([trained, bias[:, None]], 1)
        displacement = torch.cat([displacement, moved[:, None]], 1)
        if surviving is not None:
            surviving = torch.cat([surviving, surviving.new_tensor([head.num_features])])
    return HeadMove(head, trained, displacement, known, uses_bias, surviving)


def _from_state_dict(
    head: Head, state: Mapping[str, torch.Tensor], initial_bias: InitialBias
) -> tuple[torch.Tensor, InitialBias]:
    """Weight and bias of the head in a state dict of the untrained module."""
    own = f"{head.name}." if head.name else ""
    key = f"{own}weight"
    if key not in state:
        raise InputError(f"the initial state dict has no {key!r}; it has: {', '.join(sorted(state))}")
    known = {name: torch.as_tensor(state[name]) for name in (key, f"{own}bias") if name in state}
    finite_state("initial", known)
    return known[key], known.get(f"{own}bias", initial_bias)


def state_of(given: Initial | nn.Module) -> Initial:
    """Initial weights as they are given; of an untrained module its state dict."""
    return given.state_dict() if isinstance(given, nn.Module) else given


def weights_before(what: str, trained: torch.Tensor, given: torch.Tensor | str) -> torch.Tensor:
    """The weights before training, in the shape of the trained ones; zeros if they are "zero" or "unknown"."""
    if not isinstance(given, str):
        try:
            given = torch.as_tensor(given)
        except (TypeError, ValueError, RuntimeError) as error:
            valid = "a tensor, 'zero' or 'unknown', a state dict, the untrained module"
            raise InputError(f"{what} is a {type(given).__name__}; valid: {valid}") from error
        if given.squeeze().shape != trained.squeeze().shape:
            raise InputError(f"{what} of shape {tuple(given.shape)} does not fit a head of {tuple(trained.shape)}")
        return finite(what, given.detach()).reshape(trained.shape).to(trained)
    if given not in ("zero", "unknown"):
        raise InputError(f"{what} {given!r}; valid: a tensor, 'zero' or 'unknown'")
    return torch.zeros_like(trained)


def _surviving(weight: torch.Tensor, before: torch.Tensor, known: str) -> torch.Tensor | None:
    """Columns that pruning has left: weights that are exactly zero for every output, and were not at the start.

    A head that started at zero has such columns without pruning: those of features that are zero on every sample.
    """
    if known == "zero":
        return None
    pruned = (weight == 0).all(0)
    if known == "known":
        pruned &= (before != 0).any(0)
    return (~pruned).nonzero().squeeze(1) if bool(pruned.any()) else None
