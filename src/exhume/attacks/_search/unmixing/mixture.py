"""The displacement D = C [X 1] of a ReLU layer in coordinates: candidates for columns of C and for rows of [X 1].

With D = U S R cut at its rank n, every column of C is U v for some v, and every row of [X 1] is y R for some y. Where
all columns are known, C = U V^T with rows v_j of V, the inputs are the dual basis: Y = V^-T S. An entry of a column is
exactly zero if its neuron was inactive on the sample at every step; rounding of D hides what is below `threshold`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from exhume.attacks._base.unmix_tuning import UnmixTuning
from exhume.target.dense_displacement import DenseDisplacement

Tensor = torch.Tensor

# Numbers in the weighted copies of a matrix that are held at a time, and in the products of its columns.
_MOST_NUMBERS, _MOST_PRODUCTS = 2**24, 2**22


@dataclass(frozen=True)
class Agreement:
    """How well columns agree with the activations of their own inputs, in shares, one number for each column.

    Attributes:
        inactive_after: of the column's zeros, those whose neuron the input leaves inactive after training.
        inactive_before: likewise before training.
        unmoved: of the neurons inactive at both ends, those at which the column is zero.
        contradiction: of the activation that the input has at both ends (the smaller of the two, summed over neurons),
            the part on the column's zeros, without the largest. A neuron that is active at both ends should have moved,
            but one may have next to no weight in the outputs.
        hidden: size below which rounding hides an entry, over the column's mean entry: about the share of moved
            neurons that look like zeros.
        zeros: (m, h), where the columns are zero.
    """

    inactive_after: Tensor
    inactive_before: Tensor
    unmoved: Tensor
    contradiction: Tensor
    hidden: Tensor
    zeros: Tensor

    def consistent(self, tuning: UnmixTuning) -> Tensor:
        """Which columns do not contradict their inputs.

        At one end some zeros may be active: before training, if other samples switch the neuron off before this one is
        first seen; after it, if the neuron came on when nothing was left to learn.
        """
        allowed = tuning.contradiction + tuning.hidden * self.hidden
        agrees = (self.contradiction < allowed) & (self.unlike_chance > tuning.inactive - self.hidden)
        return agrees & (self.hidden < tuning.most_hidden)

    @property
    def unlike_chance(self) -> Tensor:
        """The share of zeros that is inactive, at the end where it is larger."""
        return torch.maximum(self.inactive_after, self.inactive_before)


@dataclass(frozen=True)
class Weighting:
    """How neurons are weighted by an input's distance from activating them; drawn anew for every start.

    No fixed choice suits all networks, and the zeros of a column show whether one was right.

    Attributes:
        exponent: power of the distance, (m, 1).
        movement: power of a neuron's displacement that its distance is divided by, (m, 1): a neuron that moved far may
            have been active in between.
        slack: how far active a neuron may be before training, in standard deviations of pre-activations: (m, 1). Other
            samples may have switched it off before this one was first seen.
        unevenness: power of a random factor of each neuron, (m, 1); 0 for none.
        penalty: power of absolute values whose sum a column minimises, (m, 1). Below 1 it finds columns with few zeros,
            at 1 the result depends less on where the minimisation begins.
        readout: weight of active neurons, where a column should be a combination of the outputs' weights: (m, 1). None
            to leave them out.
    """

    exponent: Tensor
    movement: Tensor
    slack: Tensor
    unevenness: Tensor
    penalty: Tensor
    readout: Tensor | None = None

    @staticmethod
    def drawn(count: int, tuning: UnmixTuning, generator: torch.Generator, like: Tensor) -> Weighting:
        """Random weightings; movement, slack, unevenness and penalty each have no effect in half of them."""
        uniform = torch.rand((5, count, 1), generator=generator).to(like)
        low, high = tuning.exponents
        movement, slack, unevenness = (
            limit * (2 * part - 1).clamp_min(0) for limit, part in zip(tuning.uneven, uniform[1:4], strict=True)
        )
        exponent, penalty = low + (high - low) * uniform[0], (2 * uniform[4]).clamp_max(1.0)
        return Weighting(exponent, movement, slack, unevenness, penalty)

    def rows(self, chosen: Tensor) -> Weighting:
        """Those of some starts."""
        parts = {name: part[chosen] for name, part in vars(self).items() if part is not None}
        return replace(self, **parts)

    def with_readout(self, tuning: UnmixTuning, generator: torch.Generator) -> Weighting:
        """The same with a random weight of active neurons, of which half are 0."""
        low, high = (math.log(each) for each in tuning.readout)
        uniform = torch.rand(self.exponent.shape, generator=generator).to(self.exponent)
        drawn = torch.exp(low + (high - low) * (2 * uniform - 1))
        return replace(self, readout=torch.where(uniform < 0.5, 0.0, drawn))


@dataclass(frozen=True)
class NearSpace:
    """A space near which vectors lie.

    Attributes:
        off: the projection (n, n) off it.
        strength: of the penalty on what lies off it, over the energy of a vector: (m,).
    """

    off: Tensor
    strength: Tensor

    def beside(self, matrices: Tensor, energy: Tensor) -> Tensor:
        """Quadratic forms (m, n, n) with the penalty, for vectors whose energy (m,) in them is given."""
        return matrices + (self.strength.to(energy) * energy)[:, None, None] * self.off.to(matrices)


class Mixture:
    """D in coordinates.

    Args:
        moved: the displacement of the layer.
        tuning: when an entry is zero, and when a column is accepted.
        readout: weights (q, neurons) of the outputs, where these read the layer directly.

    Attributes:
        alive: which neurons moved at all; h counts those only. The others are zeros of every column and show nothing.
        basis: U sqrt(h), so that columns have entries of size one: (h, n).
        before, after: [W b] of both ends in the coordinates of inputs, over their common size: (h, n).
        moves: size of every neuron's displacement over the median, (h,).
        bias_noise: standard deviation of the bias column's own error, in the coordinates of inputs: (n,).
        readout: of the neurons that moved, (q, h), with entries of size one; None if it is not known.
    """

    def __init__(self, moved: DenseDisplacement, tuning: UnmixTuning, readout: Tensor | None = None) -> None:
        spectrum = moved.spectrum
        self.tuning, self.sizes, self.noise = tuning, spectrum.sizes, spectrum.noise
        self.rank = spectrum.rank
        self.bias_noise = spectrum.bias_noise * spectrum.right[:, -1]
        rounding = tuning.zero * spectrum.noise * math.sqrt(self.rank)
        self.alive = torch.linalg.vector_norm(spectrum.left * spectrum.sizes, dim=1) > rounding
        self.num_neurons = int(self.alive.sum())
        self.basis = spectrum.left[self.alive] * math.sqrt(self.num_neurons)
        moves = torch.linalg.vector_norm(self.basis * self.sizes, dim=1)
        self.moves = moves / moves.median()
        before, after = (each[self.alive] @ spectrum.right.T for each in (moved.before, moved.after))
        size = (0.5 * (before + after)).square().mean().sqrt()
        self.before, self.after = before / size, after / size
        self.middle = 0.5 * (self.before + self.after)
        self.readout = None
        if readout is not None:
            read = readout[:, self.alive]
            self.readout = read / read.square().mean().sqrt().clamp_min(1e-300)

    def columns(self, vectors: Tensor) -> Tensor:
        """U v sqrt(h): (m, n) -> (m, h)."""
        return vectors @ self.basis.T

    def relative(self, vectors: Tensor) -> Tensor:
        """Absolute values of columns over their mean: (m, h)."""
        columns = self.columns(vectors).abs()
        return columns / columns.mean(1, keepdim=True)

    def threshold(self, vectors: Tensor) -> Tensor:
        """Size below which an entry of a column may be rounding: (m, 1)."""
        scaled = vectors / self.sizes
        rounding = self.noise * torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
        noise = torch.hypot(rounding, (scaled @ self.bias_noise)[:, None])
        return self.tuning.zero * math.sqrt(self.num_neurons) * noise

    def zeros(self, vectors: Tensor) -> Tensor:
        """Where columns are zero: (m, h)."""
        return self.columns(vectors).abs() < self.threshold(vectors)

    def evidence(self, vectors: Tensor) -> Tensor:
        """How improbable it is that columns of independent normal entries have so many zeros: -log p, (m,).

        n - 1 zeros can be given to any vector. Each of the other h - n + 1 entries is below the threshold with a
        probability p, and a share q > p of them with one of exp(-(h - n + 1) KL(q || p)) at most. p is that of a normal
        entry, or the share of entries between one and two thresholds if more are there. Without it, a vector that
        rounding has swamped would seem to have the most zeros.
        """
        threshold, sizes = self.threshold(vectors), self.columns(vectors).abs()
        others = self.num_neurons - self.rank + 1
        zeros, near = ((sizes < factor * threshold).sum(1) for factor in (1, 2))
        share = (zeros - self.rank + 1).to(sizes) / others
        normal = torch.erf(threshold[:, 0] / math.sqrt(2))
        chance = torch.maximum(normal, (near - zeros).to(sizes) / others).clamp(1e-12, 1 - 1e-12)
        return others * kullback_leibler(torch.maximum(share, chance), chance)

    def net_zeros(self, vectors: Tensor) -> Tensor:
        """Zeros of columns less those that chance leaves: as many entries as lie between one and two thresholds, (m,).

        Columns are compared by it. Evidence would prefer a mixture of two that rounding hides less than either.
        """
        threshold, sizes = self.threshold(vectors), self.columns(vectors).abs()
        return 2 * (sizes < threshold).sum(1) - (sizes < 2 * threshold).sum(1)

    @property
    def few_neurons(self) -> bool:
        """Whether there are so few for each sample that zeros hardly determine a column."""
        return self.num_neurons <= self.tuning.enough * self.rank

    @cached_property
    def _products(self) -> Tensor:
        """Products of every two columns of the basis, (h, n^2)."""
        return (self.basis[:, :, None] * self.basis[:, None, :]).flatten(1)

    def gram(self, weights: Tensor) -> Tensor:
        """Weighted Gram matrices of the basis: weights (m, h) -> (m, n, n)."""
        if self.num_neurons * self.rank**2 > _MOST_PRODUCTS:
            return weighted_gram(self.basis.to(weights), weights)
        return (weights @ self._products.to(weights)).reshape(-1, self.rank, self.rank)

    def activations(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Pre-activations (m, h) of inputs (m, n) before and after training."""
        return inputs @ self.before.T, inputs @ self.after.T

    def inactivity(self, inputs: Tensor, weighting: Weighting, softness: float = 0.0) -> Tensor:
        """How far inputs (m, n) are from activating each neuron at either end, to a power: (m, h).

        A neuron that is far from active at both ends, for the distance that it moved, was probably inactive at every
        step.
        """
        before, after = self.activations(inputs)
        size = before.std(1, keepdim=True) + 1e-12
        far = torch.minimum(weighting.slack - before / size, -after / size)
        smooth = torch.nn.functional.softplus(far / softness) * softness if softness > 0 else far.clamp_min(0)
        return (smooth / self.moves**weighting.movement) ** weighting.exponent

    def independent(self, vectors: Tensor) -> list[int]:
        """Indices of vectors that are not in the span of those before them.

        Rounding makes the same column look like two: the part outside the span must exceed what rounding can hide.
        """
        return independent(vectors, self.threshold(vectors)[:, 0].clamp_min(self.tuning.distinct))

    def open_inputs(self, vectors: Tensor) -> Tensor:
        """Orthonormal columns (n, n - m) that span the inputs of all samples but those of m found columns.

        An input is orthogonal to S^-1 v for the vector v of every other sample's column.
        """
        if not len(vectors):
            return torch.eye(self.rank).to(self.basis)
        duals = torch.nn.functional.normalize(vectors / self.sizes, dim=1)
        return torch.linalg.svd(duals, full_matrices=True)[2][len(vectors) :].T

    def dual_basis(self, vectors: Tensor) -> Tensor:
        """Y (n, n) with D = C Y R, where C has the columns of n independent vectors."""
        return torch.linalg.inv(vectors.T) * self.sizes / math.sqrt(self.num_neurons)

    def inputs_of(self, vectors: Tensor) -> Tensor:
        """The dual basis Y (n, n) of n columns, signed: an input activates the neurons that its column moved."""
        inputs, columns = self.dual_basis(vectors), self.columns(vectors).abs()
        large = columns > columns.mean(1, keepdim=True)
        votes = (inputs @ self.middle.T) * (large.to(columns) - self.zeros(vectors).to(columns))
        return inputs * torch.where(votes.sum(1, keepdim=True) < 0, -1.0, 1.0)

    def agreement(self, vectors: Tensor, inputs: Tensor) -> Agreement:
        """How columns agree with inputs."""
        zeros, ends = self.zeros(vectors), self.activations(inputs)
        before, after = (each < 0 for each in ends)
        count = zeros.sum(1).clamp_min(1)
        both, active = before & after, torch.minimum(*ends).clamp_min(0)
        moveless = active * zeros
        return Agreement(
            (zeros & after).sum(1) / count,
            (zeros & before).sum(1) / count,
            (zeros & both).sum(1) / both.sum(1).clamp_min(1),
            (moveless.sum(1) - moveless.amax(1)) / active.sum(1).clamp_min(1e-300),
            (self.threshold(vectors) / self.columns(vectors).abs().mean(1, keepdim=True))[:, 0],
            zeros,
        )


def distinct(vectors: Tensor, order: Tensor, same: float, others: Tensor | None = None) -> Tensor:
    """Indices, in this order, of unit vectors (m, n) whose cosine to those before, and to others, is below `same`."""
    kept: list[int] = []
    others = vectors[:0] if others is None else others
    for index in order.tolist():
        if not bool(((torch.cat([others, vectors[kept]]) @ vectors[index]).abs() > same).any()):
            kept.append(index)
    return torch.tensor(kept, dtype=torch.long)


def weighted_gram(matrix: Tensor, weights: Tensor) -> Tensor:
    """sum_h w_h b_h b_h^T for every row of weights: (h, n), (m, h) -> (m, n, n)."""
    rows = max(1, _MOST_NUMBERS // matrix.numel())
    return torch.cat([(matrix.T[None] * part[:, None, :]) @ matrix for part in weights.split(rows)])


def kullback_leibler(share: Tensor, chance: Tensor) -> Tensor:
    """KL(q || p) of two coins."""
    tails = torch.special.xlogy(1 - share, (1 - share) / (1 - chance))
    return torch.special.xlogy(share, share / chance) + tails


def mean_diagonal(matrices: Tensor) -> Tensor:
    """The mean of the diagonals (m, n, n) -> (m, 1, 1)."""
    return matrices.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]


def independent(vectors: Tensor, least: Tensor) -> list[int]:
    """Indices of vectors whose part outside the span of those before them is longer than `least` (m,)."""
    found = torch.zeros((0, vectors.shape[1])).to(vectors)
    kept = []
    for index, vector in enumerate(vectors):
        outside = vector - found.T @ (found @ vector)
        if float(outside.norm()) > float(least[index]):
            found = torch.cat([found, (outside / outside.norm())[None]])
            kept.append(index)
    return kept
