"""The base of all defences: settings in their order, each an altered release or the reason why there is none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from exhume.defences.release import Release
from exhume.errors import ExhumeError, InputError


@dataclass(frozen=True)
class Setting:
    """One setting of a defence: its name, and a number that orders the settings of a family, weakest first."""

    name: str
    strength: float


@dataclass(frozen=True)
class Variant:
    """An altered copy of a release.

    Attributes:
        defence: the family.
        setting, strength: which of the family.
        release: the altered copy, with the data that it was trained on; None if it cannot be made.
        reason: why it cannot be made.
        note: what else is to be said.
    """

    defence: str
    setting: str
    strength: float
    release: Release | None
    reason: str = ""
    note: str = ""


@dataclass(frozen=True)
class Defence(ABC):
    """A family of alterations. A new one writes `settings`, `alter`, a `name` and what data it `needs`."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def settings(self, release: Release) -> list[Setting]:
        """The settings to try on a release, weakest first."""

    @abstractmethod
    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """The release under one setting, and a note; an ExhumeError says why it cannot be."""

    @final
    def variants(self, release: Release) -> Iterator[Variant]:
        """The altered copies, one after the other; a setting that cannot be made says why."""
        missing = release.missing(self.needs)
        for setting in self.settings(release):
            changed, reason, note = None, f"needs {missing}" if missing else "", ""
            if not missing:
                try:
                    changed, note = self.alter(release, setting)
                except ExhumeError as error:
                    reason = str(error)
            yield Variant(self.name, setting.name, setting.strength, changed, reason, note)


def percent(share: float) -> str:
    """A share as a percentage in a few digits."""
    return f"{100 * share:.3g}%"


def checked(name: str, values: tuple[float, ...], low: float, high: float) -> None:
    """Refuses settings that are not between two limits, both excluded."""
    for value in values:
        if not low < value < high:
            raise InputError(f"{name} {value} is not possible; valid: above {low:g} and below {high:g}")
