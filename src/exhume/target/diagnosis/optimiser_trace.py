"""Which family of optimisers moved the weights, and which share of their start weight decay left.

One step size for all weights (SGD, momentum, L-BFGS) makes a displacement a sum of outer products of errors and
inputs: its rank is at most the number of samples, the rows of a classifier's head sum to zero, and its entries,
products of two factors, have heavy tails. A step size for each weight (Adam, AdamW, RMSprop) bounds every step by the
learning rate: entries pile up near learning rate x steps, so that their kurtosis is low.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal

import torch

Family = Literal["gradient", "adaptive", "unknown"]
GRADIENT: Family = "gradient"
ADAPTIVE: Family = "adaptive"
UNKNOWN: Family = "unknown"


@dataclass(frozen=True)
class TraceLimits:
    """What separates the families, set by `python -m benches diagnosis` on the networks of seeds 0 and 1.

    Attributes:
        piled: kurtosis up to which a displacement is Adam's whatever its rank: where samples have few inputs in common
            Adam, too, moves a layer by a matrix of low rank.
        adaptive, gradient: kurtosis up to which a displacement is Adam's, and from which on it is SGD's; between them
            the family is unknown.
        fall, most_of: factor by which singular values fall at the rank of a sum of few outer products, and the largest
            share of the smaller side that this rank may be: inputs that only one sample has are alike under Adam.
        zero_sum: norm of the sum of a head's rows, relative to the norm of the head, that counts as zero.
        cluster, width: share of a layer's weights that have the same ratio to their start, and how far that ratio may
            differ among them, to be the share that decay left.
        still: norm of a row or column, relative to the largest, below which rounding moved it.
        fewest: entries from which on a layer is looked at.
    """

    piled: float = 2.0
    adaptive: float = 3.0
    gradient: float = 3.8
    fall: float = 50.0
    most_of: float = 0.7
    zero_sum: float = 1e-3
    cluster: float = 0.01
    width: float = 1e-4
    still: float = 1e-4
    fewest: int = 64


LIMITS = TraceLimits()


@dataclass(frozen=True)
class Trace:
    """What the displacement of all layers shows of the optimiser.

    Attributes:
        family: "gradient" (one step size for all weights), "adaptive" (one for each) or "unknown".
        evidence: what shows it, as a clause.
        share: of the initial weights that weight decay left; 1 if it left all, None if it cannot be told.
        largest: the largest displacement of a weight.
    """

    family: Family
    evidence: str
    share: float | None
    largest: float


def trace(before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor], head: str) -> Trace | None:
    """Reads the optimiser's trace off the layers that moved; None if none did.

    Args:
        before, after: weights of at least two sides, by name, before and after training.
        head: name of the weights of the last layer.
    """
    pairs = {name: (before[name].double().flatten(1), each.double().flatten(1)) for name, each in after.items()}
    moved = {name: pair for name, pair in pairs.items() if not torch.equal(*pair) and pair[0].numel() >= LIMITS.fewest}
    if not moved:
        return None
    share = _decay_share(moved)
    changes = {name: end - (1.0 if share is None else share) * start for name, (start, end) in moved.items()}
    largest = max(float((end - start).abs().max()) for start, end in moved.values())
    family, evidence = _family(changes, head)
    return Trace(family, evidence, share, largest)


def _family(changes: Mapping[str, torch.Tensor], head: str) -> tuple[Family, str]:
    tails = {name: kurtosis for name, each in changes.items() if (kurtosis := _kurtosis(each)) is not None}
    if not tails:
        return UNKNOWN, "too few weights moved"
    typical = median(tails.values())
    of_sizes = f"the kurtosis of the displacement is {typical:.1f}"
    piled_up = f"displacements pile up near the largest ({of_sizes}; gradients leave heavy tails)"
    if typical <= LIMITS.piled:
        return ADAPTIVE, piled_up
    for name, each in changes.items():
        if (rank := _low_rank(each)) is not None:
            return GRADIENT, f"the displacement of {name} has rank {rank} of {min(each.shape)}"
    last = changes.get(head)
    if last is not None and len(last) > 2 and float(last.sum(0).norm()) <= LIMITS.zero_sum * float(last.norm()):
        return GRADIENT, f"the displacements of the outputs in {head} sum to zero, as the gradients of a classifier do"
    if typical <= LIMITS.adaptive:
        return ADAPTIVE, piled_up
    if typical >= LIMITS.gradient:
        return GRADIENT, f"displacements have the heavy tails of products of errors and inputs ({of_sizes})"
    return UNKNOWN, f"{of_sizes}, between those of the two families"


def _decay_share(moved: Mapping[str, tuple[torch.Tensor, torch.Tensor]]) -> float | None:
    """The ratio to their start that weights without a gradient share (of inputs or neurons that were never active)."""
    for start, end in moved.values():
        usable = start.abs() > 0.1 * start.abs().mean()  # the ratio of others is rounding
        ratios = (end[usable] / start[usable]).sort().values
        count = max(20, int(LIMITS.cluster * len(ratios)))
        if len(ratios) <= count:
            continue
        widths = ratios[count:] - ratios[:-count]
        place = int(widths.argmin())
        if float(widths[place]) <= LIMITS.width:
            share = float(ratios[place : place + count + 1].median())
            return 1.0 if abs(share - 1) <= max(10 * float(widths[place]), 1e-6) else share
    return None


def _kurtosis(change: torch.Tensor) -> float | None:
    """Fourth moment over the squared second one, of the entries that moved; None if these are few."""
    part = change[change.abs() > 1e-6 * change.abs().max()]
    return float(part.pow(4).mean() / part.square().mean().square()) if len(part) >= LIMITS.fewest else None


def _low_rank(change: torch.Tensor) -> int | None:
    """The rank, if the singular values fall to rounding well before the last; else None.

    Rows and columns that did not move beyond rounding are left out: neurons that were never active, constant inputs.
    """
    rows, columns = change.norm(dim=1), change.norm(dim=0)
    part = change[rows > LIMITS.still * rows.max()][:, columns > LIMITS.still * columns.max()]
    sizes = torch.linalg.svdvals(part)
    if len(sizes) < 2:
        return None
    floor = 1e-8 * float(sizes[0])
    falls = sizes[:-1].clamp_min(floor) / sizes[1:].clamp_min(floor)
    rank = int(falls.argmax()) + 1
    return rank if float(falls.max()) >= LIMITS.fall and rank <= LIMITS.most_of * len(sizes) else None
