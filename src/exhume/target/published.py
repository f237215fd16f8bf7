"""What a published model holds in all: the numbers of every layer that moved, against those of the samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from exhume.errors import brief
from exhume.law import LABELS_ONLY, NOT_EVEN_LABELS
from exhume.target.network_weights import NetworkWeights
from exhume.target.target import Target


@dataclass(frozen=True)
class Count:
    """Equations and unknowns of all published layers together.

    Attributes:
        equations: the published numbers that training moved, or may have moved.
        unknowns: numbers that the samples consist of.
        layers: names of the parameters and statistics that were counted; "head" where there is nothing else.
        determined: whether there are more equations than unknowns.
        unit: of the first count; the bits of a file, where its numbers are not all weights.
        unconfirmed: what was only stated and without which there would be enough equations; empty if they suffice.
    """

    equations: int
    unknowns: int
    layers: tuple[str, ...]
    determined: bool
    unit: str = "equations"
    unconfirmed: tuple[str, ...] = ()

    @property
    def shows_too_few(self) -> bool:
        """Whether there are fewer equations than unknowns, whatever was only stated."""
        return not self.determined and not self.unconfirmed

    @property
    def sentence(self) -> str:
        """The count in words."""
        if not self.equations:
            return "No published layer moved in training, so the weights hold nothing of the training data."
        relation = "more than enough" if self.determined else "too few to determine the samples"
        return (
            f"All published layers that moved hold {self.equations:,} {self.unit} for {self.unknowns:,} unknown "
            f"numbers: {relation}.{self._condition}"
        )

    @property
    def _condition(self) -> str:
        if not self.unconfirmed:
            return ""
        return f" That rests on what was stated and not confirmed: {' and '.join(self.unconfirmed)}."


def count_published(target: Target, num_samples: int, *, confirmed: bool = True) -> Count:
    """Counts every published layer that moved in training against the samples.

    A parameter is counted unless its initial value is known and it has not changed, or the model marks it as frozen
    (`requires_grad`) while others are not. The running statistics of BatchNorm are counted too. Where only the head is
    left, the law counts; else each sample has as many unknowns as inputs, and its coefficients are taken to be known,
    so that a model is never called safe because they were counted.

    Two statements can be wrong and make a model look safe: a number of samples that is too large, and layers marked as
    frozen that were trained. They are named in the count if it depends on them.

    Args:
        target: the model.
        num_samples: n, known ones included.
        confirmed: whether so many training samples were given; else n was only stated, or estimated.
    """
    moved = {} if target.model is None else moved_numbers(target.model)
    count = _count(target, num_samples, moved)
    if count.determined:
        return count
    unconfirmed = []
    if not confirmed and _count(target, target.knowledge.known_samples + 1, moved).determined:
        unconfirmed.append(f"the number of samples, {num_samples} (give the training data)")
    frozen = {} if target.model is None else marked_as_frozen(target.model)
    if frozen and _count(target, num_samples, moved | frozen).determined:
        names = brief(", ".join(frozen))
        unconfirmed.append(f"layers marked as frozen whose initial weights were not given ({names})")
    return replace(count, unconfirmed=tuple(unconfirmed))


def _count(target: Target, num_samples: int, moved: dict[str, int]) -> Count:
    """The count for parameters of these sizes."""
    known, features = target.knowledge, target.features
    beyond = [name for name in moved if target.model is not None and not target.model.in_head(name)]
    if not beyond:
        forecast = target.forecast(num_samples)
        enough = forecast.verdict not in (NOT_EVEN_LABELS, LABELS_ONLY)
        return Count(forecast.equations, forecast.unknowns, ("head",), enough)
    dimension = features.input_dim if known.subspace is None else min(len(known.subspace), features.input_dim)
    equations, unknowns = sum(moved.values()), max(num_samples - known.known_samples, 0) * dimension
    return Count(equations, unknowns, tuple(moved), equations > unknowns)


def marked_as_frozen(model: NetworkWeights) -> dict[str, int]:
    """How many numbers each parameter has that only its mark (`requires_grad`) keeps from being counted."""
    return {
        name: weight.numel()
        for name, weight in model.weights().items()
        if name not in model.initial and name not in model.trained
    }


def moved_numbers(model: NetworkWeights) -> dict[str, int]:
    """How many numbers each parameter or running statistic has that training moved, or may have moved."""
    moved = {}
    for name, weight in model.weights().items():
        before = model.initial.get(name)
        changed = name in model.trained if before is None else not torch.equal(before.to(weight), weight)
        if changed:
            moved[name] = weight.numel()
    for name, layer in model.module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            for statistic in ("running_mean", "running_var"):
                values = getattr(layer, statistic)
                if values is not None:
                    moved[f"{name}.{statistic}"] = values.numel()
    return moved
