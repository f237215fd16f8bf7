"""Retracing a two-layer network's training: what features drifted by, from candidates and known initial weights.

Gradient descent from known weights on the candidates themselves gives a displacement M(X) of the head. For the true
samples it is Theta. What M has outside the span of the features at X is what drift put there; with it taken out of
Theta, the span equation is solved again, and so on: at the true samples nothing moves any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.functional import one_hot

from exhume.attacks.base import Problem
from exhume.features import FeatureMap
from exhume.networks import TwoLayer
from exhume.solvers import Inner, Patience, levenberg_marquardt, onto_sphere
from exhume.span import Point, Span
from exhume.training import train

_ROUNDS = 16
# A round must bring the residual down to this share, or the retracing ends.
_FALL = 0.9
# The retraced equation must fit better by this factor of the residual, or training was not like that.
_MUST_FALL = 0.8
_PATIENCE = Patience(10, 1e-11, window=2, fall=0.9)
_INNER = Inner(40, 0.01)
_RIDGE = 1e-11
# Steps of a simulated training: as many as the budget allows, within these limits.
_LEAST_STEPS, _MOST_STEPS = 100, 100_000
# Steps of the retraced descent, in units of the stable one that `train` chooses by itself; the next is tried as long as
# the path comes nearer to the one that was taken.
_STEPS = (1.0, 0.2, 0.04)


@dataclass(frozen=True)
class Start:
    """Weights before training, in the coordinates of the samples.

    Attributes:
        first: (h, r) for inputs in units of the samples themselves.
        head: (k, h).
        activation: its name.
        input_scale: how much longer the samples are than their coordinates.
    """

    first: torch.Tensor
    head: torch.Tensor
    activation: str
    input_scale: float


@dataclass(frozen=True)
class Retraced:
    """Where retracing led.

    Attributes:
        samples: (n, r) coordinates.
        displacement: Theta less what drift put outside the span.
        residual: relative, of that equation.
        errors: for every sample what may be left of its error.
        rounds: how many simulated trainings.
    """

    samples: torch.Tensor
    displacement: torch.Tensor
    residual: float
    errors: tuple[float, ...]
    rounds: int


@dataclass(frozen=True)
class _Trial:
    samples: torch.Tensor
    displacement: torch.Tensor
    residual: float


class Retracing:
    """Solves the span equation with the drift of simulated trainings taken out.

    Args:
        problem: inside a subspace, with features at both ends of training.
        trained: the features of the trained body, with the derivatives that tell where to go next if those do not.
        start: the initial weights.
        watch: called after every accepted step of the solver.
        max_passes: budget; what comes after it is not begun.
    """

    def __init__(
        self,
        problem: Problem,
        trained: FeatureMap,
        start: Start,
        watch: Callable[[Point], bool],
        max_passes: float,
    ) -> None:
        self._problem, self._start, self._watch = problem, start, watch
        self._ends, self._trained = problem.features.with_dtype(torch.float64), trained.with_dtype(torch.float64)
        self._theta = problem.target.displacement.double()
        self._span = problem.span(self._ends, self._theta, ridge=_RIDGE)
        self._rounds, self._stable = 0, 0.0
        self._most_passes = problem.features.ledger.passes + max_passes

    def __call__(self, samples: torch.Tensor) -> Retraced | None:
        """Retraces from samples that nearly solve the equation; None if that does not make it fit better."""
        first = self._span.at(self._normed(samples.double()))
        best: _Trial | None = None
        for share in _STEPS:
            found = self._follow(first.samples if best is None else best.samples, share)
            if best is not None and found.residual >= best.residual:
                break
            best = found
            if self._spent():
                break
        assert best is not None
        if not best.residual < _MUST_FALL * math.sqrt(first.loss):
            return None
        return Retraced(best.samples, best.displacement, best.residual, self._errors(first, best), self._rounds)

    def _follow(self, samples: torch.Tensor, share: float) -> _Trial:
        best = self._evaluate(samples, share)
        for _ in range(_ROUNDS):
            nearest = self._next(best, share)
            fell = nearest.residual < _FALL * best.residual
            if nearest.residual < best.residual:
                best = nearest
            if not fell or self._spent():
                break
        return best

    def _next(self, trial: _Trial, share: float) -> _Trial:
        """The best place that a step leads to: whole, and if that does not help, in part; with either derivative."""
        goals = [self._normed(self._solve(features, trial)) for features in (self._ends, self._trained)]
        nearest = trial
        for part in (1.0, 0.5, 0.2):
            tries = [self._evaluate(torch.lerp(trial.samples, goal, part), share) for goal in goals]
            nearest = min(tries, key=lambda each: each.residual)
            if nearest.residual < _FALL * trial.residual or self._spent():
                break
        return nearest

    def _spent(self) -> bool:
        return self._problem.features.ledger.passes > self._most_passes

    def _evaluate(self, samples: torch.Tensor, share: float) -> _Trial:
        """The drift that training on the samples would have made, taken out."""
        samples = self._normed(samples)
        point = self._span.at(samples)
        simulated = self._simulate(samples, share)
        outside = self._span.project(point, simulated)
        displacement = self._theta - outside
        left = self._span.project(point, displacement)
        residual = math.sqrt(float(left.square().sum()) / self._span.squared_norm)
        return _Trial(samples, displacement, residual)

    def _solve(self, features: FeatureMap, trial: _Trial) -> torch.Tensor:
        span = Span(
            features,
            trial.displacement,
            ridge=_RIDGE,
            squared_norm=self._span.squared_norm,
            fixed=self._problem.known_features(features),
        )
        radius = None if self._problem.norms_open else self._problem.radius
        rows = trial.samples if radius is None else onto_sphere(trial.samples, radius)
        return levenberg_marquardt(
            span, rows, _PATIENCE, radius=radius, inner=_INNER, damping=1e-3, least_damping=1e-10, watch=self._watch
        ).samples

    def _simulate(self, samples: torch.Tensor, share: float) -> torch.Tensor:
        """The displacement of the head that gradient descent on the samples ends with, (k, h)."""
        start, known = self._start, self._problem.target.knowledge.samples
        rows = samples if known is None else torch.cat([samples, known.to(samples)])
        labels = self._labels(rows)
        network = TwoLayer(rows.shape[1], start.first.shape[0], start.head.shape[0], start.activation).double()
        with torch.no_grad():
            network.first.weight.copy_(start.first)
            network.head.weight.copy_(start.head)
        options = {"stable": True} if share == 1.0 else {"step_size": share * self._stable}
        ledger, cost = self._problem.features.ledger, (len(rows) + 3 * start.head.shape[0]) / self._full_dim
        affordable = round((self._most_passes - ledger.passes) * ledger.unit_rows / (len(rows) * cost))
        steps = min(_MOST_STEPS, max(_LEAST_STEPS, affordable))
        trained = train(network, start.input_scale * rows, labels, max_steps=steps, **options)
        if share == 1.0:
            self._stable = trained.step_size
        self._rounds += 1
        ledger.add(trained.steps * len(rows) * cost, self._ends.num_features)
        return network.head.weight.detach() - start.head.double()

    @property
    def _full_dim(self) -> float:
        return self._ends.input_dim * self._start.input_scale**2

    def _outputs(self, rows: torch.Tensor) -> torch.Tensor:
        return self._problem.target.outputs(self._trained.forward(rows))

    def _labels(self, rows: torch.Tensor) -> torch.Tensor:
        """What the network was taught, taken for what it outputs: named by the alphabet if that is known."""
        outputs, alphabet = self._outputs(rows), self._problem.target.knowledge.label_alphabet
        if alphabet == "one-hot":
            outputs = one_hot(outputs.argmax(1), outputs.shape[1]).to(outputs)
        elif alphabet == "signs":
            outputs = outputs.sign()
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def _normed(self, samples: torch.Tensor) -> torch.Tensor:
        """Samples at the norms that known labels give homogeneous features, or at the known norm."""
        knowledge, symmetry = self._problem.target.knowledge, self._ends.symmetry
        if knowledge.norm is not None:
            return onto_sphere(samples, knowledge.norm)
        if symmetry.identifies_norm or knowledge.label_alphabet is None:
            return samples
        sizes = self._outputs(samples)
        sizes = sizes.amax(1) if knowledge.label_alphabet == "one-hot" else sizes[:, 0].abs()
        return samples / sizes.clamp_min(1e-3)[:, None]

    def _errors(self, before: Point, after: _Trial) -> tuple[float, ...]:
        """What is left of the correction, and what outputs off the labels say of norms that were read off them."""
        left = after.residual / math.sqrt(before.loss)
        sizes = torch.linalg.vector_norm(after.samples, dim=1)
        change = torch.linalg.vector_norm(after.samples - before.samples, dim=1) / sizes
        misfit = torch.zeros_like(change)
        if self._problem.target.knowledge.label_alphabet == "one-hot":
            outputs = self._outputs(after.samples)
            off = outputs - one_hot(outputs.argmax(1), outputs.shape[1]).to(outputs)
            misfit = off.square().mean(1).sqrt()
        return tuple(((left * change).square() + misfit.square()).sqrt().tolist())
