"""Alterations of the released weights that need no training: rounding, noise, pruning and fewer coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from exhume.attacks._base.problem import equation_count
from exhume.defences.altered import trained_head, uses_bias, with_head, with_weights
from exhume.defences.base import Defence, GradedDefence, Release, Setting, percent
from exhume.defences.refit import fitted_head, note_on_refit, without_alphabet
from exhume.support.randomness import generator_for
from exhume.support.validation import one_of
from exhume.victims.pruning import magnitude

_LEVELS = 127
# Halvings of the features that are tried at most, and those where the number of samples is not known.
_MOST_HALVINGS, _BLIND_HALVINGS = 8, 3


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


def rounded(tensor: torch.Tensor, number_format: str) -> torch.Tensor:
    """The tensor rounded to "float16", "bfloat16" or "int8" and cast back."""
    return _ROUNDINGS[number_format][0](tensor)


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
            one_of("number format", name, _ROUNDINGS)

    def settings(self, release: Release) -> list[Setting]:
        """One for each format, the finest first."""
        return sorted((Setting(name, _ROUNDINGS[name][1]) for name in self.formats), key=lambda each: each.strength)

    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """Rounds and casts back to the model's own precision."""
        before = release.target
        after = with_weights(before, _ROUNDINGS[setting.name][0])
        moved = float((trained_head(after) - trained_head(before)).norm() / before.displacement.norm())
        return replace(release, target=without_alphabet(after)), f"changes the head's displacement by {percent(moved)}"


@dataclass(frozen=True)
class Noise(GradedDefence):
    """Gaussian noise on the head: W + s E, where the entries of E are standard normal.

    With the displacement D (k, p), s = share ||D|| / sqrt(k p), so that ||s E|| is about share ||D||.

    Attributes:
        shares: sizes of the noise relative to the displacement.
    """

    name: ClassVar[str] = "noise"
    summary: ClassVar[str] = "Gaussian noise on the head, relative to how far training moved it"
    setting_name: ClassVar[str] = "noise {percent}"

    shares: tuple[float, ...] = (0.01, 0.1, 0.3, 1.0)

    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """Adds the noise to every weight of the head."""
        target, displacement = release.target, release.target.displacement
        generator = generator_for(release.seed, f"defence {setting.name}")
        noise = torch.randn(displacement.shape, generator=generator, dtype=torch.float64)
        size = setting.strength * float(displacement.double().norm()) / math.sqrt(displacement.numel())
        head = trained_head(target)
        return replace(release, target=without_alphabet(with_head(target, head + (size * noise).to(head)))), ""


@dataclass(frozen=True)
class Pruning(GradedDefence):
    """Magnitude pruning: of the head's features those with the largest weights stay, unchanged; a bias stays always.

    Attributes:
        removed: shares of the features that are cut off.
    """

    name: ClassVar[str] = "pruning"
    summary: ClassVar[str] = "features of the smallest weights cut off"
    limit: ClassVar[float] = 1.0
    setting_name: ClassVar[str] = "{percent} pruned"

    removed: tuple[float, ...] = (0.5, 0.75, 0.9)

    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """Keeps the largest weights."""
        target, head = release.target, trained_head(release.target)
        width = head.shape[1] - uses_bias(target)
        keep = max(1, round((1 - setting.strength) * width))
        kept = _with_bias_column(magnitude(head[:, :width], keep)[0], head.shape[1], uses_bias(target))
        note = f"{keep} of {width} features left"
        return replace(release, target=without_alphabet(with_head(target, head[:, kept], kept))), note


@dataclass(frozen=True)
class Coordinates(GradedDefence):
    """A random share of the features; the head is trained anew on them where the data are given, else cut.

    Attributes:
        shares: of the features that are released. By default 1/2, 1/4 and so on until the weights are fewer than the
            unknowns, beyond which they do not determine the samples.
    """

    name: ClassVar[str] = "coordinates"
    summary: ClassVar[str] = "fewer features released, chosen at random"
    limit: ClassVar[float] = 1.0

    shares: tuple[float, ...] = ()

    def settings(self, release: Release) -> list[Setting]:
        """One for each share, the largest first."""
        shares = sorted(self.shares, reverse=True) or _halvings(release)
        return [Setting(f"1/{1 / share:.3g} of features", 1 / share) for share in shares]

    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """Draws the features and trains the head on them, or cuts it."""
        target, data = release.target, release.dataset
        columns = trained_head(target).shape[1]
        width = columns - uses_bias(target)
        generator = generator_for(release.seed, "defence coordinates")  # the same order for all shares: nested sets
        drawn = torch.randperm(width, generator=generator)[: max(1, round(width / setting.strength))]
        kept = _with_bias_column(drawn.sort().values, columns, uses_bias(target))
        kept = kept.to(target.displacement.device)
        note = f"{len(drawn)} of {width} features left"
        if not data.is_labelled:
            cut = with_head(target, trained_head(target)[:, kept], kept)
            return replace(release, target=without_alphabet(cut)), f"{note}; the others cut off, no data to train on"
        changed = with_head(target, fitted_head(target, data.inputs, data.labels, kept=kept), kept)
        if len(kept) < data.num_samples:  # too few to output the labels
            changed = without_alphabet(changed)
        return replace(release, target=changed), f"{note}; {note_on_refit(target)}"


def _halvings(release: Release) -> list[float]:
    """1/2, 1/4, ... up to the first share of the weights that is smaller than the unknowns."""
    target = release.target
    count = release.dataset.num_samples or target.knowledge.count
    unknown = None if count is None else count - target.knowledge.known_samples
    if unknown is None or unknown < 1:
        return [0.5**halving for halving in range(1, _BLIND_HALVINGS + 1)]
    equations, unknowns = equation_count(target, unknown)
    shares = [0.5**halving for halving in range(1, _MOST_HALVINGS + 1)]
    enough = sum(equations * share > unknowns for share in shares)
    return shares[: enough + 1]


def _with_bias_column(kept: torch.Tensor, num_columns: int, has_bias: bool) -> torch.Tensor:
    """Indices of features with the last column added, if that is the bias."""
    return torch.cat([kept, kept.new_tensor([num_columns - 1])]) if has_bias else kept
