"""Repairs columns that are mixtures of two: subtracts the multiple of another column that leaves the most zeros.

With c_k + t c_j in place of c_k the input of k is right, and that of j is spoiled: y_j - t y_k. Where c_k is zero and
c_j is not, the mixture over c_j is t: the same number at many neurons, which is easily seen.
"""

from __future__ import annotations

import torch

from exhume.attacks._search.unmixing.mixture import Mixture, Tensor

# An entry is divided by only if it exceeds its rounding by this factor.
_CLEAR = 3.0
# Vectors with a smaller singular value are dependent.
_SINGULAR = 1e-9


def repair(mixture: Mixture, vectors: Tensor, generator: torch.Generator) -> Tensor:
    """The n vectors (n, n) with mixtures replaced by what they mix, as far as that mends the inputs they spoil.

    More zeros alone would not do: with one output or two classes a difference of two columns has more than either.
    """
    tuning = mixture.tuning
    for _ in range(tuning.repairs):
        agreement = mixture.agreement(vectors, mixture.inputs_of(vectors))
        spoiled = torch.where(agreement.consistent(tuning), -1.0, agreement.contradiction)
        changed = None
        for other in spoiled.argsort(descending=True).tolist():
            if spoiled[other] < 0 or changed is not None:
                break
            changed = _mended(mixture, vectors, other, generator)
        if changed is None:
            break
        vectors = changed
    return vectors


def _mended(mixture: Mixture, vectors: Tensor, other: int, generator: torch.Generator) -> Tensor | None:
    """Vectors of which one was freed from the column `other`, so that the latter's input contradicts it less."""
    tuning, inputs = mixture.tuning, mixture.inputs_of(vectors)
    reduced = _reduced(mixture, vectors, other, generator)
    before, then = mixture.agreement(vectors, inputs), mixture.agreement(reduced, inputs)
    possible = then.consistent(tuning) | (then.contradiction <= before.contradiction)
    possible &= then.zeros.sum(1) + tuning.spare >= before.zeros.sum(1)
    possible[other] = False
    best, least = None, tuning.mended * float(before.contradiction[other])
    for index in possible.nonzero()[:, 0].tolist():
        tried = vectors.clone()
        tried[index] = reduced[index]
        if float(torch.linalg.svdvals(tried)[-1]) < _SINGULAR:
            continue
        found = float(mixture.agreement(tried, mixture.inputs_of(tried)).contradiction[other])
        if found < least:
            best, least = tried, found
    return best


def _reduced(mixture: Mixture, vectors: Tensor, other: int, generator: torch.Generator) -> Tensor:
    """Each vector (n, n) minus the multiple of another that leaves it the most zeros."""
    columns, thresholds = mixture.columns(vectors), mixture.threshold(vectors)
    by, clear = columns[other], columns[other].abs() > _CLEAR * thresholds[other]
    places = clear.nonzero()[:, 0]
    if not len(places):
        return vectors
    drawn = torch.randint(len(places), (mixture.tuning.ratios,), generator=generator)
    chosen = places[drawn.to(places.device)]
    ratios = columns[:, chosen] / by[chosen]  # (n, r)
    counts = []
    for ratio in ratios.T:
        rest = (columns - ratio[:, None] * by).abs()
        limit = thresholds + ratio.abs()[:, None] * thresholds[other]
        counts.append(2 * (rest < limit).sum(1) - (rest < 2 * limit).sum(1))  # less as many as chance leaves
    best = torch.stack(counts).argmax(0)
    reduced = vectors - ratios.gather(1, best[:, None]) * vectors[other]
    sizes = torch.linalg.vector_norm(reduced, dim=1, keepdim=True)
    return torch.where(sizes > mixture.tuning.distinct, reduced / sizes.clamp_min(1e-300), vectors)
