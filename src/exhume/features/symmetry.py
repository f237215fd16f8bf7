"""What features hide: the norm of a sample if they are homogeneous, its sign if they are even or odd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch

from exhume.activations import Activation

Parity = Literal["even", "odd", "none"]
# Deviation, relative to the features themselves, up to which two of them are the same (float32 bodies round to 1e-6).
_SAME = 1e-4
# How far inputs are stretched to see whether features are homogeneous; far, as some bend only there (relu6).
_FAR = 20.0


@dataclass(frozen=True)
class Symmetry:
    """How phi(r x) and phi(-x) relate to phi(x).

    Attributes:
        parity: "even" or "odd" if phi(-x) = phi(x) or -phi(x), which hides signs for good.
        homogeneous: phi(r x) = r^q phi(x) for r > 0, so that x and r x span the same.
        signs_identified: whether the non-linear part alone tells signs, as descent needs (the paper's Remark 1).
    """

    parity: Parity = "none"
    homogeneous: bool = False
    signs_identified: bool = True

    @property
    def identifies_norm(self) -> bool:
        """Whether a sample's norm shows in the span of its features."""
        return not self.homogeneous

    @classmethod
    @lru_cache(maxsize=64)
    def of_activation(cls, activation: Activation) -> Symmetry:
        """That of act(V x)."""
        return cls(activation.parity, activation.homogeneity is not None, activation.signs_identified)

    @classmethod
    def measured(cls, features: Callable[[torch.Tensor], torch.Tensor], inputs: torch.Tensor) -> Symmetry:
        """That of any map, read off its values at some inputs (m, d)."""
        at, mirrored, stretched = features(inputs), features(-inputs), features(_FAR * inputs)
        scale = float(at.norm())
        parity: Parity = "none"
        if float((mirrored - at).norm()) < _SAME * scale:
            parity = "even"
        elif float((mirrored + at).norm()) < _SAME * scale:
            parity = "odd"
        stretch = float((stretched * at).sum()) / max(scale**2, 1e-300)
        homogeneous = float((stretched - stretch * at).norm()) < _SAME * max(stretch, 1.0) * scale
        return cls(parity, homogeneous, signs_identified=parity == "none")
