"""Ridge: a head trained anew that is kept near where it started; for a linear head the same as weight decay."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from exhume.defences.altering import with_head
from exhume.defences.base import Defence, Setting, checked
from exhume.defences.refit import fitted_head, note_on_refit, without_alphabet
from exhume.defences.release import Release


@dataclass(frozen=True)
class Ridge(Defence):
    """Square loss and n lambda ||W - W_0||^2; n lambda is given relative to the mean eigenvalue of the kernel.

    Descent with weight decay ends at the same head if that starts at zero: Eq. (168) and (169).

    Attributes:
        relative: n lambda over tr(Phi Phi^T) / n.
    """

    name: ClassVar[str] = "ridge"
    summary: ClassVar[str] = "ridge, or weight decay: the head trained anew and kept small"
    needs: ClassVar[tuple[str, ...]] = ("inputs", "labels")

    relative: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)

    def __post_init__(self) -> None:
        checked("a ridge of", self.relative, 0.0, math.inf)

    def settings(self, release: Release) -> list[Setting]:
        """One for each ridge."""
        return [Setting(f"ridge {value:g}", value) for value in sorted(self.relative)]

    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """Trains the head anew."""
        assert release.inputs is not None
        assert release.labels is not None
        target = release.target
        head = fitted_head(target, release.inputs, release.labels, relative_ridge=setting.strength)
        return replace(release, target=without_alphabet(with_head(target, head))), note_on_refit(target)
