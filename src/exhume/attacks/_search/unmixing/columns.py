"""Single columns of a ReLU layer's displacement: from random inputs to vectors with exact zeros.

A start alternates between an input and a column. The input leaves neurons inactive; the column is the direction of D's
column space with the least energy on them. The column is large on some neurons; the input is the one whose signs agree
with that (one-bit least squares). Reweighted least squares then minimises the sum of the column's absolute values on
inactive neurons, and the rows at which it vanishes determine it exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from exhume.attacks._search.unmixing.mixture import (
    Mixture,
    NearSpace,
    Tensor,
    Weighting,
    mean_diagonal,
    weighted_gram,
)

# Added to the diagonal before a factorisation, over its mean: float32 for alternations, float64 for the rest.
_RIDGE, _RIDGE_DOUBLE, _ONE_BIT_RIDGE, _READOUT_RIDGE = 1e-5, 1e-12, 1e-3, 1e-3
# Inverse iterations for the smallest eigenvector: of the first steps, and of later ones, which start near it.
_FIRST_ITERATIONS, _ITERATIONS, _FIRST_STEPS = 4, 2, 3
# Steepness of the level from which an entry counts as active.
_STEEPNESS = 2.0
# Newton steps for an input from a column's zeros; how much more zeros weigh than other entries, some of which were
# inactive at both ends; width of the logistic loss at first and at last, in standard deviations of pre-activations.
_NEWTON_STEPS, _ZERO_WEIGHT, _WIDTHS = 20, 3.0, (0.5, 0.05)
# The same where many neurons were active in between.
_ZERO_WEIGHT_BETWEEN, _WIDTHS_BETWEEN = 6.0, (0.5, 0.15)
# Times that a vector is computed again from its zeros.
_JUDGED = 3
# A second eigenvalue below this share of the largest leaves the vector open.
_NULL = 1e-8
# The smallest smoothing of absolute values, over the mean entry.
_FINEST = 1e-6


@dataclass(frozen=True)
class Candidates:
    """Columns of several starts.

    Attributes:
        vectors: (m, n), of length one.
        zeros: (m, h), where they vanish.
        alone: whether the zeros determine the vector: (m,).
        net_zeros: zeros less those that chance leaves, (m,).
    """

    vectors: Tensor
    zeros: Tensor
    alone: Tensor
    net_zeros: Tensor

    def rows(self, first: int, last: int) -> Candidates:
        """Those from index `first` to before `last`."""
        return Candidates(*(each[first:last] for each in (self.vectors, self.zeros, self.alone, self.net_zeros)))


def search_columns(mixture: Mixture, open_inputs: Tensor, starts: int, generator: torch.Generator) -> Candidates:
    """One batch of starts, from random inputs in the span of `open_inputs` (n, r)."""
    weighting = draw_weighting(mixture, starts, generator)
    low, high = mixture.tuning.levels
    level = low + (high - low) * torch.rand((starts, 1), generator=generator).to(mixture.basis)
    inputs = torch.randn((starts, open_inputs.shape[1]), generator=generator).to(open_inputs) @ open_inputs.T
    first = torch.randn((starts, mixture.rank), generator=generator).to(mixture.basis)
    vectors, inputs = alternate(mixture, open_inputs, (inputs, first), weighting, level)
    return _columns(mixture, inputs, vectors, weighting, generator)


def columns_of_inputs(mixture: Mixture, inputs: Tensor, vectors: Tensor, generator: torch.Generator) -> Candidates:
    """Columns from the neurons that inputs (m, n) leave inactive; `vectors` (m, n) are where to begin."""
    return _columns(mixture, inputs, vectors, draw_weighting(mixture, len(inputs), generator), generator)


def draw_weighting(mixture: Mixture, count: int, generator: torch.Generator) -> Weighting:
    """Random weightings of neurons, with the outputs' weights if these are known."""
    weighting = Weighting.drawn(count, mixture.tuning, generator, mixture.basis)
    return weighting if mixture.readout is None else weighting.with_readout(mixture.tuning, generator)


def _columns(
    mixture: Mixture, inputs: Tensor, vectors: Tensor, weighting: Weighting, generator: torch.Generator
) -> Candidates:
    """Columns of inputs (m, n) by two ways: those with more zeros, if alone. `vectors` (m, n) are where to begin.

    The first minimises the sum of powers of absolute values. The second draws few neurons, hardly more than determine a
    vector, and hopes that all of them are zeros (Fischler & Bolles 1981); it pays while there are few samples.
    """
    weights = uneven(mixture, inputs, weighting, generator)
    best = settle(mixture, sharpen(mixture, inputs, vectors, weights, weighting))
    draws = mixture.tuning.draws if mixture.rank <= mixture.tuning.most_drawn else 0
    if draws:
        keys = weights.clamp_min(1e-300).log().repeat(draws, 1)  # (draws m, h)
        uniform = torch.rand(keys.shape, generator=generator).to(weights).clamp(1e-12, 1 - 1e-12)
        order = (keys - (-uniform.log()).log()).argsort(1, descending=True).argsort(1)  # Gumbel noise: draws by weight
        count = (mixture.rank - 1) * (1 + 0.5 * torch.rand((len(keys), 1), generator=generator).to(weights))
        drawn = settle(mixture, torch.linalg.eigh(mixture.gram((order < count).to(weights)))[1][:, :, 0])
        for part in range(draws):
            best = better_of(best, drawn.rows(part * len(weights), (part + 1) * len(weights)))
    return best


def uneven(mixture: Mixture, inputs: Tensor, weighting: Weighting, generator: torch.Generator) -> Tensor:
    """Inactivity times a random factor for each neuron."""
    weights = mixture.inactivity(inputs, weighting)
    return weights * torch.rand(weights.shape, generator=generator).to(weights) ** weighting.unevenness


def alternate(
    mixture: Mixture,
    open_inputs: Tensor,
    starts: tuple[Tensor, Tensor],
    weighting: Weighting,
    level: Tensor,
    space: NearSpace | None = None,
) -> tuple[Tensor, Tensor]:
    """Vectors (m, n) and inputs (m, n) after alternating, in float32: rounding is far below the steps.

    With a space, vectors stay near it.
    """
    inputs, vectors = starts
    basis, middle = mixture.basis.float(), mixture.middle
    normal = open_inputs.T @ (middle.T @ middle) @ open_inputs
    normal = normal + _ONE_BIT_RIDGE * torch.eye(len(normal)).to(normal) * normal.diagonal().mean()
    to_inputs = (open_inputs @ torch.linalg.solve(normal, open_inputs.T @ middle.T)).float()  # (n, h)
    steps = mixture.tuning.steps
    for step in range(steps):
        softness = mixture.tuning.softness * (1 - step / max(steps - 1, 1))
        weights = mixture.inactivity(inputs, weighting, softness).float()
        iterations = _FIRST_ITERATIONS if step < _FIRST_STEPS else _ITERATIONS
        weights = weights if weighting.readout is None else weights + weighting.readout.float()
        energy = explained_energy(mixture, inputs, weights)
        if space is not None:
            energy = space.beside(energy, (weights * (vectors.float() @ basis.T).square()).sum(1))
        vectors = least_direction(energy, vectors.float(), iterations, _RIDGE)
        sizes = (vectors @ basis.T).abs()
        active = torch.tanh(_STEEPNESS * (sizes / sizes.mean(1, keepdim=True) - level.float()))
        inputs = (active @ to_inputs.T).to(mixture.basis)
    return vectors.to(mixture.basis), inputs


def explained_energy(mixture: Mixture, inputs: Tensor, weights: Tensor) -> Tensor:
    """Quadratic forms (m, n, n) of columns: weighted squares of what an input does not explain of a column.

    On inactive neurons that is the whole column. Where the outputs read the layer directly, a column is on active
    neurons nearly a combination of the outputs' weights, those of the summed errors of its sample.
    """
    basis = mixture.basis.to(weights)
    if mixture.readout is None:
        return mixture.gram(weights)
    before, after = (each > 0 for each in mixture.activations(inputs))
    active = 0.5 * (before.to(weights) + after.to(weights))
    explaining = mixture.readout.to(weights) * active[:, None, :]  # (m, q, h)
    weighted = explaining * weights[:, None, :]
    normal = weighted @ explaining.transpose(1, 2)
    ridge = (_READOUT_RIDGE * mean_diagonal(normal)).clamp_min(1e-9)  # a start may give active neurons no weight
    normal = normal + ridge * torch.eye(normal.shape[-1]).to(normal)
    mixed = weighted @ basis
    return mixture.gram(weights) - mixed.transpose(1, 2) @ torch.linalg.solve(normal, mixed)


def least_direction(matrices: Tensor, vectors: Tensor, iterations: int, ridge: float) -> Tensor:
    """Nearly the eigenvectors of the smallest eigenvalues, by inverse iteration from `vectors` (m, n)."""
    size = mean_diagonal(matrices)
    damped = matrices + (ridge * size + torch.finfo(matrices.dtype).tiny) * torch.eye(matrices.shape[-1]).to(matrices)
    factor = torch.linalg.cholesky_ex(damped)[0]
    for _ in range(iterations):
        vectors = torch.nn.functional.normalize(torch.cholesky_solve(vectors[..., None], factor)[..., 0], dim=1)
    return torch.nan_to_num(vectors)


def sharpen(mixture: Mixture, inputs: Tensor, vectors: Tensor, weights: Tensor, weighting: Weighting) -> Tensor:
    """Minimises sum_h w_h |(U v)_h|^p by reweighted least squares (Daubechies et al. 2010), for weights w (m, h).

    At first v . S^-1 y = 1 for the input y (m, n), which is 0 for the columns of all other inputs, so that these do not
    attract v; then, as y is not exact, |v| = 1. What the outputs' weights do not explain on active neurons is added.
    """
    tuning = mixture.tuning
    weights = weights / weights.amax(1, keepdim=True).clamp_min(1e-300) + tuning.kept
    identity, others = torch.eye(mixture.rank).to(vectors), vectors.new_zeros((len(vectors), 1, 1))
    if weighting.readout is not None:
        before, after = mixture.activations(inputs)
        unexplained = explained_energy(mixture, inputs, (torch.maximum(before, after) > 0).to(vectors))
        others = tuning.explained * weighting.readout[:, :, None] * unexplained
    duals = torch.nn.functional.normalize(inputs / mixture.sizes, dim=1)
    for step in range(tuning.reweightings):
        sizes = mixture.relative(vectors)
        smooth = tuning.coarse * (_FINEST / tuning.coarse) ** (step / max(tuning.reweightings - 1, 1))
        scaled = weights / (sizes.square() + smooth**2) ** (1 - 0.5 * weighting.penalty)
        largest = scaled.amax(1, keepdim=True)
        matrices = mixture.gram(scaled / largest) + others / largest[:, :, None]
        matrices = matrices + _RIDGE_DOUBLE * mean_diagonal(matrices) * identity
        right = duals if step < tuning.steered * tuning.reweightings else vectors
        vectors = torch.nn.functional.normalize(torch.linalg.solve(matrices, right), dim=1)
    return vectors


def settle(mixture: Mixture, vectors: Tensor) -> Candidates:
    """Vectors that vanish on rows where the given ones are small: of three choices of these rows the best.

    The first takes the entries that rounding hides. The second takes so many of the smallest, step by step: least
    trimmed squares (Rousseeuw 1984). The third takes all entries below a threshold that falls step by step; close to a
    column these are exactly its zeros.
    """
    tuning, trimmed = mixture.tuning, vectors
    count = min(max(mixture.rank + tuning.spare, round(tuning.trimmed * mixture.rank)), mixture.num_neurons)
    for _ in range(tuning.trims):
        trimmed = _vanishing(mixture, trimmed, _smallest(mixture.columns(trimmed).abs(), count))
    narrowed = narrow(mixture, vectors, np.geomspace(*tuning.narrowing, tuning.trims))
    best = better_of(_judge(mixture, vectors), _judge(mixture, trimmed))
    return better_of(best, _judge(mixture, narrowed))


def narrow(mixture: Mixture, vectors: Tensor, sizes: Iterable[float], among: Tensor | None = None) -> Tensor:
    """Vectors that vanish on the rows, of those in `among` (m, h), below sizes that fall, over the mean."""
    for size in sizes:
        entries = mixture.relative(vectors)
        entries = entries if among is None else torch.where(among, entries, torch.inf)
        rows = (entries < size) | _smallest(entries, mixture.rank + mixture.tuning.spare)
        vectors = _vanishing(mixture, vectors, rows & entries.isfinite())
    return vectors


def _smallest(sizes: Tensor, count: int) -> Tensor:
    """Where the smallest entries of rows (m, h) are."""
    count = min(count, sizes.shape[1])
    smallest = torch.zeros_like(sizes, dtype=torch.bool)
    return smallest.scatter_(1, sizes.topk(count, dim=1, largest=False).indices, True)


def _vanishing(mixture: Mixture, vectors: Tensor, rows: Tensor) -> Tensor:
    """Vectors next to the given ones that are smallest on rows (m, h)."""
    return least_direction(mixture.gram(rows.to(vectors)), vectors, _ITERATIONS, _RIDGE_DOUBLE)


def _judge(mixture: Mixture, vectors: Tensor) -> Candidates:
    """Vectors that vanish on the zeros of the given ones, where these are enough, and whether they are determined."""
    enough = mixture.rank + mixture.tuning.spare
    for _ in range(_JUDGED):
        zeros = mixture.zeros(vectors)
        again = _vanishing(mixture, vectors, zeros)
        better = (zeros.sum(1) >= enough) & (mixture.zeros(again).sum(1) >= zeros.sum(1))
        vectors = torch.where(better[:, None], again, vectors)
    zeros = mixture.zeros(vectors)
    known = (zeros.sum(1) >= enough) & (mixture.evidence(vectors) > mixture.tuning.evidence)
    known[known.clone()] = leverage_margin(mixture, vectors[known], zeros[known]) > mixture.tuning.leverage
    return Candidates(vectors, zeros, known, mixture.net_zeros(vectors))


def better_of(first: Candidates, second: Candidates) -> Candidates:
    """Of each pair the one that is alone, or has more zeros."""
    better = (second.alone > first.alone) | ((second.alone == first.alone) & (second.net_zeros > first.net_zeros))
    pick = better[:, None]
    return Candidates(
        torch.where(pick, second.vectors, first.vectors),
        torch.where(pick, second.zeros, first.zeros),
        first.alone | second.alone,
        torch.where(better, second.net_zeros, first.net_zeros),
    )


def leverage_margin(mixture: Mixture, vectors: Tensor, zeros: Tensor) -> Tensor:
    """1 minus the largest leverage of a zero (m,); 0 where rounding explains it, or several vectors have the zeros.

    The common zeros of several columns leave several vectors. One of these can be made to vanish on a few rows more, as
    many as columns are mixed; such a row is the only one that tells it from the others, and has a leverage of one, up
    to the energy that rounding hides.
    """
    if mixture.rank == 1:
        return torch.ones_like(vectors[:, 0])
    weights = zeros.to(mixture.basis)
    sizes, directions = torch.linalg.eigh(mixture.gram(weights))
    inverse = (directions[:, :, 1:] / sizes[:, None, 1:].clamp_min(1e-300)) @ directions[:, :, 1:].transpose(1, 2)
    left = 1 - (((mixture.basis @ inverse) * mixture.basis).sum(2) * weights).amax(1)
    hidden = mixture.tuning.telling * weights.sum(1) * mixture.threshold(vectors)[:, 0].square()
    return torch.where((sizes[:, 1] > _NULL * sizes[:, -1]) & (left > hidden), left, 0.0)


def fit_inputs(
    mixture: Mixture, zeros: Tensor, open_inputs: Tensor, sizes: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Inputs (m, n) that are inactive at both ends on the zeros (m, h) and active at one end elsewhere.

    Newton's method on a logistic loss. With the sizes (m, h) of a column's entries, over their mean, small ones count
    less, as their neurons may have been active in between only. Also returns the share of zeros or of other entries
    that fits, whichever is smaller: (m,).
    """
    ends = mixture.before @ open_inputs, mixture.after @ open_inputs  # (h, r)
    middle = 0.5 * (ends[0] + ends[1])
    identity = torch.eye(middle.shape[1]).to(middle)
    normal = middle.T @ middle
    normal = normal + _ONE_BIT_RIDGE * identity * normal.diagonal().mean()
    inputs = torch.linalg.solve(normal, middle.T @ torch.where(zeros, -1.0, 1.0).to(middle).T).T
    others = torch.ones_like(inputs[:, :1]) if sizes is None else sizes.clamp_max(1.0).sqrt()
    first, last = _WIDTHS if sizes is None else _WIDTHS_BETWEEN
    weight = _ZERO_WEIGHT if sizes is None else _ZERO_WEIGHT_BETWEEN
    for step in range(_NEWTON_STEPS):
        values = [inputs @ end.T for end in ends]
        width = values[0].std(1, keepdim=True) * first * (last / first) ** (step / _NEWTON_STEPS)
        scaled = [value / width for value in values]
        gradient, curvature = 0.0 * inputs, 0.0 * identity
        for own, other, end in zip(scaled, reversed(scaled), ends, strict=True):
            larger = (own >= other) * others
            slope = torch.where(zeros, weight * torch.sigmoid(own), -torch.sigmoid(-own) * larger)
            bend = torch.sigmoid(own) * torch.sigmoid(-own)
            weights = torch.where(zeros, weight * bend, bend * larger) + _ONE_BIT_RIDGE
            gradient, curvature = gradient + slope @ end, curvature + weighted_gram(end, weights)
        curvature = curvature + _ONE_BIT_RIDGE * mean_diagonal(curvature) * identity
        change = torch.linalg.solve(curvature, gradient) * width
        longest = 0.5 * inputs.norm(dim=1, keepdim=True) / change.norm(dim=1, keepdim=True).clamp_min(1e-300)
        inputs = inputs - change * longest.clamp_max(1.0)
    inputs = inputs @ open_inputs.T
    before, after = (each < 0 for each in mixture.activations(inputs))
    inactive = before & after
    fit_zeros = (zeros & inactive).sum(1) / zeros.sum(1).clamp_min(1)
    fit_others = (~zeros & ~inactive).sum(1) / (~zeros).sum(1).clamp_min(1)
    return torch.nn.functional.normalize(inputs, dim=1), torch.minimum(fit_zeros, fit_others)
