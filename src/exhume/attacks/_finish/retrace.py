"""Retracing a two-layer network's training: the effect of feature drift, from candidates and known initial weights.

Gradient descent from the known weights on the candidates X gives a displacement M(X) of the head. For the true samples
it is Theta. The part of M outside the span of the features at X is due to drift. It is subtracted from Theta, the span
equation is solved again, and so on; the true samples are a fixed point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn.functional import one_hot

from exhume.attacks._base.problem import Problem
from exhume.attacks._base.session import Session
from exhume.equation.span import SpanPoint
from exhume.features import FeatureMap
from exhume.networks import TwoLayer
from exhume.solvers import FixedNorm, levenberg_marquardt
from exhume.training import train


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
    """What retracing found.

    Attributes:
        samples: (n, r) coordinates.
        displacement: Theta without the part that is due to drift.
        residual: relative, of that equation.
        errors: for every sample the relative error that may be left.
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
    step_size: float  # of the simulated training


class Retracing:
    """Solves the span equation for Theta without the drift of simulated trainings.

    Args:
        problem: inside a subspace, with features at both ends of training.
        start: the initial weights.
        session: records the steps.
        max_passes: budget; no round is begun after it is spent.
    """

    def __init__(self, problem: Problem, start: Start, session: Session, max_passes: float) -> None:
        self._problem, self._start, self._session = problem, start, session
        self._tuning = problem.tuning.retrace
        self._ends = problem.features.with_dtype(torch.float64)
        self._trained = problem.target.features.with_dtype(torch.float64)
        self._theta = problem.target.displacement.double()
        self._equation = problem.equation(self._ends, self._theta, ridge=self._tuning.ridge)
        self._rounds = 0
        self._most_passes = session.passes() + max_passes

    def __call__(self, samples: torch.Tensor) -> Retraced | None:
        """Retraces from samples that nearly solve the equation; None if that does not make it fit better."""
        first = self._equation.at(self._normed(samples.double()))
        best = self._follow(first.samples, None)
        stable = best.step_size
        # Shorter steps than the stable one are tried as long as they lower the residual.
        for share in (self._tuning.finer, self._tuning.finer**2):
            if self._spent():
                break
            found = self._follow(best.samples, share * stable)
            if found.residual >= best.residual:
                break
            best = found
        if not best.residual < self._tuning.max_left_in_all * math.sqrt(first.loss):
            return None
        return Retraced(best.samples, best.displacement, best.residual, self._errors(first, best), self._rounds)

    def _follow(self, samples: torch.Tensor, step_size: float | None) -> _Trial:
        """Rounds of simulated trainings with this step size, or with the stable one that `train` chooses."""
        best = self._evaluate(samples, step_size)
        for _ in range(self._tuning.rounds):
            nearest = self._next(best, step_size)
            fell = nearest.residual < self._tuning.max_left * best.residual
            if nearest.residual < best.residual:
                best = nearest
            if not fell or self._spent():
                break
        return best

    def _next(self, trial: _Trial, step_size: float | None) -> _Trial:
        """Solves the span equation with either feature map and moves towards the solution.

        All the way, then half, then a fifth, until the residual falls enough; returns the best of all that were tried.
        """
        goals = [self._normed(self._solve(features, trial)) for features in (self._ends, self._trained)]
        nearest = trial
        for part in (1.0, 0.5, 0.2):
            tries = [self._evaluate(torch.lerp(trial.samples, goal, part), step_size) for goal in goals]
            nearest = min(nearest, *tries, key=lambda each: each.residual)
            if nearest.residual < self._tuning.max_left * trial.residual or self._spent():
                break
        return nearest

    def _spent(self) -> bool:
        return self._session.passes() > self._most_passes

    def _evaluate(self, samples: torch.Tensor, step_size: float | None) -> _Trial:
        """Theta without the drift that training on these samples would cause, and the residual."""
        samples = self._normed(samples)
        point = self._equation.at(samples)
        simulated, step_size = self._simulate(samples, step_size)
        outside = self._equation.project(point, simulated)
        displacement = self._theta - outside
        left = self._equation.project(point, displacement)
        residual = math.sqrt(float(left.square().sum()) / self._equation.squared_norm)
        return _Trial(samples, displacement, residual, step_size)

    def _solve(self, features: FeatureMap, trial: _Trial) -> torch.Tensor:
        equation = self._problem.equation(
            features, trial.displacement, ridge=self._tuning.ridge, squared_norm=self._equation.squared_norm
        )
        norms = self._problem.norms
        rows = norms.retract(trial.samples)
        tuning, record = self._tuning, self._session.record
        return levenberg_marquardt(
            equation, rows, norms, tuning.rule, cg=tuning.cg, damping=tuning.damping, should_stop=record
        ).point.samples

    def _simulate(self, samples: torch.Tensor, step_size: float | None) -> tuple[torch.Tensor, float]:
        """The displacement (k, h) of the head by gradient descent on the samples, and the step size that was used."""
        start, known = self._start, self._problem.target.knowledge.samples
        rows = samples if known is None else torch.cat([samples, known.to(samples)])
        labels = self._labels(rows)
        network = TwoLayer(rows.shape[1], start.first.shape[0], start.head.shape[0], start.activation).double()
        with torch.no_grad():
            network.first.weight.copy_(start.first)
            network.head.weight.copy_(start.head)
        options = {"stable": True} if step_size is None else {"step_size": step_size}
        inputs = len(rows) + 3 * start.head.shape[0]  # of a step's products with the features, in the Gram matrix
        full_dim = self._ends.input_dim * start.input_scale**2
        left = (self._most_passes - self._session.passes()) * len(samples) * full_dim
        affordable = round(left / (len(rows) * inputs))
        steps = min(self._tuning.most_steps, max(self._tuning.least_steps, affordable))
        trained = train(network, start.input_scale * rows, labels, max_steps=steps, **options)
        self._rounds += 1
        self._problem.features.counter.add(trained.steps * len(rows), self._ends.num_features, inputs)
        return network.head.weight.detach() - start.head.double(), trained.step_size

    def _outputs(self, rows: torch.Tensor) -> torch.Tensor:
        return self._problem.target.outputs(self._trained.forward(rows))

    def _labels(self, rows: torch.Tensor) -> torch.Tensor:
        """Labels of the training: the network's outputs, rounded to the label alphabet if that is known."""
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
            return FixedNorm(knowledge.norm).retract(samples)
        if symmetry.identifies_norm or knowledge.label_alphabet is None:
            return samples
        sizes = self._outputs(samples)
        sizes = sizes.amax(1) if knowledge.label_alphabet == "one-hot" else sizes[:, 0].abs()
        return samples / sizes.clamp_min(1e-3)[:, None]

    def _errors(self, before: SpanPoint, after: _Trial) -> tuple[float, ...]:
        """Share of the residual that is left x change of the sample, and the error of norms that come from outputs."""
        left = after.residual / math.sqrt(before.loss)
        sizes = torch.linalg.vector_norm(after.samples, dim=1)
        change = torch.linalg.vector_norm(after.samples - before.samples, dim=1) / sizes
        misfit = torch.zeros_like(change)
        if self._problem.target.knowledge.label_alphabet == "one-hot":
            outputs = self._outputs(after.samples)
            off = outputs - one_hot(outputs.argmax(1), outputs.shape[1]).to(outputs)
            misfit = off.square().mean(1).sqrt()
        return tuple(((left * change).square() + misfit.square()).sqrt().tolist())
