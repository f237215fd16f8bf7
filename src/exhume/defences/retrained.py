"""Heads trained anew: with a ridge, or on more samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from exhume.defences.altered import with_head
from exhume.defences.base import Defence, GradedDefence, Release, Setting
from exhume.defences.refit import fitted_head, note_on_refit, without_alphabet
from exhume.errors import InputError
from exhume.support.labels import kind_of
from exhume.support.validation import whole_number


@dataclass(frozen=True)
class Ridge(GradedDefence):
    """Square loss and n lambda ||W - W_0||^2; n lambda is given relative to the mean eigenvalue of the kernel.

    Descent with weight decay ends at the same head if that starts at zero: Eq. (168) and (169).

    Attributes:
        relative: n lambda over tr(Phi Phi^T) / n.
    """

    name: ClassVar[str] = "ridge"
    summary: ClassVar[str] = "ridge, or weight decay: the head trained anew and kept small"
    needs: ClassVar[tuple[str, ...]] = ("inputs", "labels")
    setting_name: ClassVar[str] = "ridge {number:g}"

    relative: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)

    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """Trains the head anew."""
        target, data = release.target, release.dataset
        head = fitted_head(target, data.inputs, data.labels, relative_ridge=setting.strength)
        return replace(release, target=without_alphabet(with_head(target, head))), note_on_refit(target)


@dataclass(frozen=True)
class MoreSamples(Defence):
    """The training data and some times as many held-out ones; the minimum-norm fit to both.

    Attributes:
        times: how many held-out samples for each training sample.
    """

    name: ClassVar[str] = "samples"
    summary: ClassVar[str] = "the head trained on more data"
    needs: ClassVar[tuple[str, ...]] = ("inputs", "labels", "non_members", "non_member_labels")

    times: tuple[int, ...] = (1, 2, 4)

    def __post_init__(self) -> None:
        for value in self.times:
            whole_number("a multiple of the samples", value)

    def settings(self, release: Release) -> list[Setting]:
        """One for each multiple."""
        return [Setting(f"{value} more for each", float(value)) for value in sorted(self.times)]

    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """Moves the first held-out samples to the training data; the others stay held out."""
        data, outputs = release.dataset, release.target.num_outputs
        kinds = kind_of(data.labels, outputs), kind_of(data.non_member_labels, outputs)
        if kinds[0] != kinds[1]:
            raise InputError(f"training labels are {kinds[0]} and held-out labels {kinds[1]}; they must be alike")
        more = int(setting.strength) * data.num_samples
        if more > len(data.non_members):
            raise InputError(f"needs {more} held-out samples; {len(data.non_members)} are given")
        grown = replace(
            data,
            inputs=torch.cat([data.inputs, data.non_members[:more]]),
            labels=torch.cat([data.labels, data.non_member_labels[:more]]),
            non_members=data.non_members[more:],
            non_member_labels=data.non_member_labels[more:],
        )
        target = with_head(release.target, fitted_head(release.target, grown.inputs, grown.labels))
        for name, value in (("num_samples", grown.num_samples), ("labels", grown.labels)):
            if getattr(target.knowledge, name) is not None:
                target = target.assuming(**{name: value})
        note = f"{grown.num_samples} samples, {len(grown.non_members)} held out; {note_on_refit(target)}"
        return replace(release, target=target, dataset=grown), note
