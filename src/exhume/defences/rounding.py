"""Rounding of the released weights to fewer bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from exhume.defences.altering import trained_head, with_weights
from exhume.defences.base import Defence, Setting, percent
from exhume.defences.refit import without_alphabet
from exhume.defences.release import Release
from exhume.errors import unknown_name

_LEVELS = 127


def to_int8(tensor: torch.Tensor) -> torch.Tensor:
    """The nearest of 255 values that lie evenly and symmetrically around zero: one scale max |w| / 127 for the tensor.

    Vectors (biases, scales and statistics of normalisation) stay as they are, as is usual.
    """
    largest = tensor.abs().max() if tensor.numel() else tensor.new_zeros(())
    if tensor.ndim < 2 or not bool(largest > 0):
        return tensor
    scale = largest / _LEVELS
    return (tensor / scale).round().clamp(-_LEVELS, _LEVELS) * scale


def _through(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor.to(dtype).to(tensor.dtype)


# The rounding and its step: relative to a weight for floating-point numbers, to the largest of a tensor for int8.
_ROUNDINGS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "float16": (_through(torch.float16), torch.finfo(torch.float16).eps),
    "bfloat16": (_through(torch.bfloat16), torch.finfo(torch.bfloat16).eps),
    "int8": (to_int8, 1 / _LEVELS),
}


@dataclass(frozen=True)
class Rounding(Defence):
    """All released weights in fewer bits: of a network every one, of random features the head.

    Attributes:
        formats: "float16", "bfloat16" or "int8".
    """

    name: ClassVar[str] = "rounding"
    summary: ClassVar[str] = "released weights in fewer bits"

    formats: tuple[str, ...] = ("float16", "bfloat16", "int8")

    def __post_init__(self) -> None:
        for name in self.formats:
            if name not in _ROUNDINGS:
                raise unknown_name("number format", name, _ROUNDINGS)

    def settings(self, release: Release) -> list[Setting]:
        """One for each format, the finest first."""
        return sorted((Setting(name, _ROUNDINGS[name][1]) for name in self.formats), key=lambda each: each.strength)

    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """Rounds and casts back to the model's own precision."""
        before = release.target
        after = with_weights(before, _ROUNDINGS[setting.name][0])
        moved = float((trained_head(after) - trained_head(before)).norm() / before.displacement.norm())
        return replace(release, target=without_alphabet(after)), f"changes the head's displacement by {percent(moved)}"
