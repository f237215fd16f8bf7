"""Gaussian noise on the released head."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from exhume.defences.altering import trained_head, with_head
from exhume.defences.base import Defence, Setting, checked, percent
from exhume.defences.refit import without_alphabet
from exhume.defences.release import Release
from exhume.randomness import generator_for


@dataclass(frozen=True)
class Noise(Defence):
    """W + s E with E Gaussian and s = share ||D|| / sqrt(k p), D the displacement: ||s E|| is about share ||D||.

    Attributes:
        shares: sizes of the noise relative to the displacement.
    """

    name: ClassVar[str] = "noise"
    summary: ClassVar[str] = "Gaussian noise on the head, relative to how far training moved it"

    shares: tuple[float, ...] = (0.01, 0.1, 0.3, 1.0)

    def __post_init__(self) -> None:
        checked("noise of", self.shares, 0.0, math.inf)

    def settings(self, release: Release) -> list[Setting]:
        """One for each share."""
        return [Setting(f"noise {percent(share)}", share) for share in sorted(self.shares)]

    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """Adds the noise to every weight of the head."""
        target = release.target
        displacement = target.displacement
        generator = generator_for(release.seed, f"defence {setting.name}")
        noise = torch.randn(displacement.shape, generator=generator, dtype=torch.float64)
        size = setting.strength * float(displacement.double().norm()) / math.sqrt(displacement.numel())
        head = trained_head(target)
        return replace(release, target=without_alphabet(with_head(target, head + (size * noise).to(head)))), ""
