"""More samples: the head trained on more data, so that the same weights must carry more unknowns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from exhume.defences.altering import with_head
from exhume.defences.base import Defence, Setting
from exhume.defences.labels import kind_of
from exhume.defences.refit import fitted_head, note_on_refit
from exhume.defences.release import Release
from exhume.errors import InputError


@dataclass(frozen=True)
class MoreSamples(Defence):
    """The training data and some times as many held-out ones; the minimum-norm fit to both.

    Attributes:
        times: how many held-out samples for each training sample.
    """

    name: ClassVar[str] = "samples"
    summary: ClassVar[str] = "the head trained on more data"
    needs: ClassVar[tuple[str, ...]] = ("inputs", "labels", "held_out_inputs", "held_out_labels")

    times: tuple[int, ...] = (1, 2, 4)

    def __post_init__(self) -> None:
        for value in self.times:
            if not isinstance(value, int) or value < 1:
                raise InputError(f"{value} times as many samples is not possible; valid: whole numbers above 0")

    def settings(self, release: Release) -> list[Setting]:
        """One for each multiple."""
        return [Setting(f"{value} more for each", float(value)) for value in sorted(self.times)]

    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """Moves the first held-out samples to the training data; the others stay held out."""
        inputs, labels, spare, spare_labels = _given(release)
        more = int(setting.strength) * len(inputs)
        if more > len(spare):
            raise InputError(f"needs {more} held-out samples; {len(spare)} are given")
        inputs = torch.cat([inputs, spare[:more].to(inputs)])
        labels = torch.cat([labels, spare_labels[:more].to(labels)])
        target = with_head(release.target, fitted_head(release.target, inputs, labels))
        known: dict[str, Any] = {}
        if target.knowledge.num_samples is not None:
            known["num_samples"] = len(inputs)
        if target.knowledge.labels is not None:
            known["labels"] = labels
        if known:
            target = target.assuming(**known)
        left = len(spare) - more
        changed = replace(
            release,
            target=target,
            inputs=inputs,
            labels=labels,
            held_out_inputs=spare[more:] if left else None,
            held_out_labels=spare_labels[more:] if left else None,
        )
        return changed, f"{len(inputs)} samples, {left} held out; {note_on_refit(target)}"


def _given(release: Release) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Training and held-out data, whose labels must be of one kind."""
    inputs, labels = release.inputs, release.labels
    spare, spare_labels = release.held_out_inputs, release.held_out_labels
    assert inputs is not None
    assert labels is not None
    assert spare is not None
    assert spare_labels is not None
    outputs = release.target.num_outputs
    kinds = kind_of(labels, outputs), kind_of(spare_labels, outputs)
    if kinds[0] != kinds[1] or labels.ndim != spare_labels.ndim:
        raise InputError(f"training labels are {kinds[0]} and held-out labels {kinds[1]}; they must be alike")
    return inputs, labels, spare, spare_labels
