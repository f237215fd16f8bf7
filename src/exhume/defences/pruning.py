"""Pruning of the released head: the features with the smallest weights are cut off."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from exhume.defences.altering import trained_head, uses_bias, with_head
from exhume.defences.base import Defence, Setting, checked, percent
from exhume.defences.refit import without_alphabet
from exhume.defences.release import Release
from exhume.victims.pruning import magnitude


@dataclass(frozen=True)
class Pruning(Defence):
    """Magnitude pruning: of the head's features those with the largest weights stay, unchanged; a bias stays always.

    Attributes:
        removed: shares of the features that are cut off.
    """

    name: ClassVar[str] = "pruning"
    summary: ClassVar[str] = "features of the smallest weights cut off"

    removed: tuple[float, ...] = (0.5, 0.75, 0.9)

    def __post_init__(self) -> None:
        checked("pruning of", self.removed, 0.0, 1.0)

    def settings(self, release: Release) -> list[Setting]:
        """One for each share."""
        return [Setting(f"{percent(share)} pruned", share) for share in sorted(self.removed)]

    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """Keeps the largest weights."""
        target = release.target
        head = trained_head(target)
        width = head.shape[1] - uses_bias(target)
        keep = max(1, round((1 - setting.strength) * width))
        kept = with_bias_column(magnitude(head[:, :width], keep)[0], head.shape[1], uses_bias(target))
        note = f"{keep} of {width} features left"
        return replace(release, target=without_alphabet(with_head(target, head[:, kept], kept))), note


def with_bias_column(kept: torch.Tensor, num_columns: int, has_bias: bool) -> torch.Tensor:
    """Indices of features with the last column added, if that is the bias."""
    return torch.cat([kept, kept.new_tensor([num_columns - 1])]) if has_bias else kept
