"""Features of single samples in the weights of a head with as many outputs as samples, and the samples behind them.

The rows of Theta = A^T Phi(X) then span the features of the n samples. A sample's features act(V x) are that vector
U v of the span, U (p, n) an orthonormal basis of it, which is non-negative and vanishes wherever V x is negative. A
start alternates between the two: the coordinates that an input leaves inactive give the vector with the least energy on
them, the coordinates on which that is large give an input. Each sample is found alone; no sample waits for the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from exhume.attacks._base.problem import Problem
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import Search, SearchResult, Where
from exhume.attacks._search.spectral import random_rows
from exhume.attacks._search.unmixing.mixture import independent, weighted_gram
from exhume.features import OneLayerFeatures
from exhume.results.stop import Stop
from exhume.solvers import CGOptions, conjugate_gradient
from exhume.support.distributed import ALONE

# Steepness of the level from which an entry counts as active.
_STEEPNESS = 2.0


@dataclass(frozen=True)
class FeatureState:
    """Everything that the next batch of starts depends on.

    Attributes:
        vectors: (m, n), of length one: U v are the features of m samples, independent of each other.
        samples: (m, d), the inputs that have these features.
        starts: made so far.
    """

    vectors: torch.Tensor
    samples: torch.Tensor
    starts: int = 0


def spans_features(problem: Problem, count: int) -> bool:
    """Whether the head has as many outputs as there are samples, so that its rows span their features act(V x)."""
    target, alone = problem.target, problem.features.coordinates.processes is ALONE
    enough = target.num_outputs >= count > 1 and target.knowledge.known_samples == 0
    return alone and enough and problem.is_one_layer_without_bias


class FeatureSearch(Search[FeatureState]):
    """Looks for the features of each of `count` samples in the span of the head's rows.

    Args:
        problem: to be solved; `spans_features` must hold for it, and the activation be ReLU.
        count: how many samples.
    """

    state_type = FeatureState

    def __init__(self, problem: Problem, count: int) -> None:
        self.problem, self.count, self._tuning = problem, count, problem.tuning.features
        self._features = problem.one_layer
        theta = problem.target.displacement.double()
        self._basis = torch.linalg.svd(theta, full_matrices=False)[2][:count].T.to(self._features.dtype)  # (p, n)

    def begin(self, generator: torch.Generator) -> FeatureState:
        """No sample yet."""
        empty = torch.zeros((0, self.count)).to(self._basis)
        return FeatureState(empty, empty.new_zeros((0, self._features.input_dim)))

    def where(self, state: FeatureState) -> Where:
        """The loss is the share of samples that is missing."""
        return Where(state.starts, self._tuning.starts * self.count, 1 - len(state.vectors) / self.count)

    def finished(self, state: FeatureState) -> Stop | None:
        """All samples, or no starts left."""
        if len(state.vectors) == self.count:
            return Stop.CONVERGED
        return Stop.STARTS_SPENT if state.starts >= self._tuning.starts * self.count else None

    def advance(self, state: FeatureState, session: Session) -> FeatureState:
        """One batch of starts; vectors that are independent of those found, and that a sample explains, are kept."""
        drawn = self._alternate(state.vectors, session.generator)
        together = torch.cat([state.vectors, drawn])
        least = torch.full((len(together),), self._tuning.distinct)
        new = [index for index in independent(together, least) if index >= len(state.vectors)]
        vectors = together[new[: self.count - len(state.vectors)]]
        samples, misfits = self._solve(vectors)
        good = misfits < self._tuning.accepted
        found = torch.cat([state.vectors, vectors[good]]), torch.cat([state.samples, samples[good]])
        return FeatureState(*found, state.starts + len(drawn))

    def give_up(self, state: FeatureState, stop: Stop, session: Session) -> SearchResult:
        """The samples found, and random rows in the place of missing ones."""
        missing = self.count - len(state.samples)
        more = random_rows(missing, self._features.input_dim, session.generator, self._features)
        rows = self.problem.sphere.retract(torch.cat([state.samples, more]))
        batches = state.starts // (self._tuning.batch * self.count)
        return SearchResult(rows, self.count, stop, self.problem, state.starts, batches)

    def _alternate(self, found: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Vectors (m, n) of a batch of starts, from random ones outside the span of those found; the best ones first.

        The best have the smallest share of their energy on inactive coordinates.
        """
        tuning, steps = self._tuning, self._tuning.steps
        batch = tuning.batch * self.count
        drawn = torch.randn((batch, self.count), generator=generator).to(self._basis)
        if 0 < len(found) < self.count:
            known = torch.linalg.qr(found.T)[0]
            drawn = drawn - drawn @ known @ known.T
        uniform = torch.rand((2, batch, 1), generator=generator).to(self._basis)
        level, exponent = (
            low + (high - low) * part
            for (low, high), part in zip((tuning.levels, tuning.exponents), uniform, strict=True)
        )
        columns = _positive(drawn @ self._basis.T)
        for step in range(steps):
            active = torch.tanh(_STEEPNESS * (columns / columns.abs().mean(1, keepdim=True) - level))
            inputs = solve_for_inputs(self._features, active, torch.ones_like(active), tuning.rough)
            linear = self._features.matvec(inputs)
            far = -linear / linear.std(1, keepdim=True)
            softness = tuning.softness * (1 - step / max(steps - 1, 1))
            soft = torch.nn.functional.softplus(far / softness) * softness if softness > 0 else far.clamp_min(0)
            grams = weighted_gram(self._basis, soft**exponent)
            vectors = torch.linalg.eigh(grams)[1][:, :, 0]
            columns = vectors @ self._basis.T
            sign = torch.where((columns * (linear > 0)).sum(1, keepdim=True) < 0, -1.0, 1.0)
            vectors, columns = vectors * sign, columns * sign
        return vectors[(columns.square() * (linear < 0)).sum(1).argsort()]

    def _solve(self, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Samples from the active ones of their features U v, and the shares of the energy that they leave."""
        columns = vectors @ self._basis.T
        active = (columns > 0).to(columns)
        for _ in range(self._tuning.rounds):
            samples = solve_for_inputs(self._features, columns, active, self._tuning.precise)
            linear = self._features.matvec(samples)
            active = (linear > 0).to(linear)
        rest = columns - linear.clamp_min(0)
        return samples, rest.square().sum(1) / columns.square().sum(1)


def solve_for_inputs(
    features: OneLayerFeatures, values: torch.Tensor, weights: torch.Tensor, cg: CGOptions
) -> torch.Tensor:
    """Rows x (m, d) that minimise sum_h w_h (v_h . x - c_h)^2, for values c and weights w (m, p)."""

    def apply(rows: torch.Tensor) -> torch.Tensor:
        return features.rmatvec(features.matvec(rows) * weights)

    return conjugate_gradient(apply, features.rmatvec(values * weights), lambda rows: rows, cg)[0]


def _positive(columns: torch.Tensor) -> torch.Tensor:
    """Columns (m, p) with the sign that makes their sum positive."""
    return columns * torch.where(columns.sum(1, keepdim=True) < 0, -1.0, 1.0)
