"""What every defence shares: the release that it alters, and its settings."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import ClassVar, cast, final

import torch

from exhume.data import Dataset
from exhume.defences.altered import outputs_of
from exhume.errors import ExhumeError, InputError
from exhume.support.labels import error_of, kind_of
from exhume.target.target import Target

# Names of what may be missing.
_IN_WORDS = {
    "inputs": "the training inputs",
    "labels": "the training labels",
    "non_members": "held-out inputs",
    "non_member_labels": "held-out labels",
}


@dataclass(frozen=True)
class Release:
    """A model before it is released, and the data that its owner holds.

    Attributes:
        target: the public part, under what the attacker is assumed to know.
        dataset: what it was trained on, and held-out samples as non-members; by default one without samples.
        seed: of the alterations' randomness.
        border: of one output for labels 0 and 1: 1/2 if it estimates them, 0 if it is a logit, which then become -1 and
            +1; by default the one at which the model errs less on its training data.
    """

    target: Target
    dataset: Dataset = None  # type: ignore[assignment]  # a data set without samples replaces None
    seed: int = 0
    border: float | None = None

    def __post_init__(self) -> None:
        size = self.target.feature_map.input_dim
        fitted = (self.dataset or Dataset.without_samples(size)).fitted_to(size, self.target.num_outputs)
        if self.border is None and fitted.is_labelled and kind_of(fitted.labels, self.target.num_outputs) == "binary":
            outputs, signs = self.outputs(fitted.inputs), 2 * fitted.labels - 1
            logit = error_of(outputs, signs) < error_of(outputs, fitted.labels)
            object.__setattr__(self, "border", 0.0 if logit else 0.5)
            if logit:
                fitted = replace(fitted, labels=signs, non_member_labels=2 * fitted.non_member_labels - 1)
        object.__setattr__(self, "dataset", fitted)

    def missing(self, needs: tuple[str, ...]) -> str:
        """Which of the named parts of the data set are not there, in words; empty if none."""
        return " and ".join(_IN_WORDS[name] for name in needs if not len(getattr(self.dataset, name)))

    def outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """What the model's head outputs for inputs (m, d): (m, k)."""
        return outputs_of(self.target, inputs)

    @property
    def training_error(self) -> float | None:
        """On the training data, if they are given: the share of wrong classes, or the mean squared error."""
        return self._error(self.dataset.inputs, self.dataset.labels)

    @property
    def held_out_error(self) -> float | None:
        """On the held-out data, likewise."""
        return self._error(self.dataset.non_members, self.dataset.non_member_labels)

    def _error(self, inputs: torch.Tensor, labels: torch.Tensor) -> float | None:
        return error_of(self.outputs(inputs), labels) if len(labels) else None


@dataclass(frozen=True)
class Variant:
    """An altered copy of a release.

    Attributes:
        defence: the family.
        setting, strength: which of the family.
        release: the altered copy, with the data that it was trained on; None if it cannot be made.
        reason: why it cannot be made.
        note: what else a reader should know.
    """

    defence: str
    setting: str
    strength: float
    release: Release | None
    reason: str = ""
    note: str = ""


@dataclass(frozen=True)
class Setting:
    """One setting of a defence.

    Attributes:
        name: such as "noise 1%".
        strength: orders the settings of a family, the weakest first.
    """

    name: str
    strength: float


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
        """The altered copies, one after the other; a setting that cannot be made states the reason."""
        missing = release.missing(self.needs)
        for setting in self.settings(release):
            changed, reason, note = None, f"needs {missing}" if missing else "", ""
            if not missing:
                try:
                    changed, note = self.alter(release, setting)
                except ExhumeError as error:
                    reason = str(error)
            yield Variant(self.name, setting.name, setting.strength, changed, reason, note)


@dataclass(frozen=True)
class GradedDefence(Defence):
    """A family whose one field holds numbers above 0 and below `limit`; a larger number is a stronger setting."""

    setting_name: ClassVar[str]
    """What a setting is called, with {number} or {percent} in it."""
    limit: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        check_between(f"{self.name} of", self._numbers, 0.0, self.limit)

    def settings(self, release: Release) -> list[Setting]:
        """One for each number."""
        name = self.setting_name.format
        return [Setting(name(number=value, percent=percent(value)), value) for value in sorted(self._numbers)]

    @property
    def _numbers(self) -> tuple[float, ...]:
        return cast(tuple[float, ...], getattr(self, fields(self)[0].name))


def percent(share: float) -> str:
    """A share as a percentage in a few digits."""
    return f"{100 * share:.3g}%"


def check_between(name: str, values: tuple[float, ...], low: float, high: float) -> None:
    """Refuses settings that are not between two limits, both excluded."""
    for value in values:
        if not low < value < high:
            raise InputError(f"{name} {value} is not possible; valid: above {low:g} and below {high:g}")
