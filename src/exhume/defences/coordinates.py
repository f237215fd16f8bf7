"""Fewer coordinates: a head that reads only some of the features, so that fewer weights are released."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from exhume.attacks.base import counted
from exhume.defences.altering import trained_head, uses_bias, with_head
from exhume.defences.base import Defence, Setting, checked
from exhume.defences.pruning import with_bias_column
from exhume.defences.refit import fitted_head, note_on_refit, without_alphabet
from exhume.defences.release import Release
from exhume.randomness import generator_for

# Halvings that are tried at most, and those that are tried where the number of samples is not known.
_MOST_HALVINGS, _BLIND_HALVINGS = 8, 3


@dataclass(frozen=True)
class Coordinates(Defence):
    """A random share of the features; the head is trained anew on them where the data are given, else cut.

    Attributes:
        shares: of the features that are released. By default 1/2, 1/4 and so on until the weights are fewer than the
            unknowns, beyond which they do not determine the samples.
    """

    name: ClassVar[str] = "coordinates"
    summary: ClassVar[str] = "fewer features released, chosen at random"

    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        checked("a share of", self.shares, 0.0, 1.0)

    def settings(self, release: Release) -> list[Setting]:
        """One for each share, the largest first."""
        shares = sorted(self.shares, reverse=True) or _halvings(release)
        return [Setting(f"1/{1 / share:.3g} of features", 1 / share) for share in shares]

    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """Draws the features and trains the head on them, or cuts it."""
        target = release.target
        columns = trained_head(target).shape[1]
        width = columns - uses_bias(target)
        generator = generator_for(release.seed, "defence coordinates")  # the same order for all shares: nested sets
        drawn = torch.randperm(width, generator=generator)[: max(1, round(width / setting.strength))]
        kept = with_bias_column(drawn.sort().values, columns, uses_bias(target))
        kept = kept.to(target.displacement.device)
        note = f"{len(drawn)} of {width} features left"
        if release.inputs is None or release.labels is None:
            cut = with_head(target, trained_head(target)[:, kept], kept)
            return replace(release, target=without_alphabet(cut)), f"{note}; the others cut off, no data to train on"
        changed = with_head(target, fitted_head(target, release.inputs, release.labels, kept=kept), kept)
        if len(kept) < len(release.inputs):  # too few to output the labels
            changed = without_alphabet(changed)
        return replace(release, target=changed), f"{note}; {note_on_refit(target)}"


def _halvings(release: Release) -> list[float]:
    """1/2, 1/4, ... up to the first share of the weights that is smaller than the unknowns."""
    target = release.target
    count = len(release.inputs) if release.inputs is not None else target.knowledge.count
    unknown = None if count is None else count - target.knowledge.known_samples
    shares = []
    for halving in range(1, _MOST_HALVINGS + 1):
        shares.append(0.5**halving)
        if unknown is None or unknown < 1:
            if halving == _BLIND_HALVINGS:
                break
            continue
        equations, unknowns = counted(target, unknown)
        if equations * shares[-1] <= unknowns:
            break
    return shares
