"""What `kkt` and `ntk` share: candidates and coefficients moved until their gradients add up to the weights."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Literal

import torch

from exhume.attacks._base.attack import Attack
from exhume.attacks._base.problem import EquationCount, Problem, Proposal
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import NOT_SAVED, Search, SearchResult, Where, is_recorded
from exhume.equation.gradient_span import GradientSpan
from exhume.equation.gradients import Coefficients
from exhume.equation.parameters import count_equations
from exhume.errors import InputError
from exhume.results.certificate import FAILED, Certificate
from exhume.results.stop import Stop
from exhume.target.target import Target

Tensors = dict[str, torch.Tensor]

_NOT_UNIQUE = (
    "Other data sets explain the weights by their gradients as well (arXiv 2509.21296), and of more candidates than "
    "samples none can be certified; the first have the largest coefficients."
)
# Candidates at zero have a loss of 1. Above this one the steps were too long, and the descent has diverged.
_DIVERGED = 1e12


@dataclass(frozen=True)
class Match:
    """What is matched: the equation, the candidates' labels, and what is known of pixels.

    Attributes:
        span: the equation.
        labels: (m,) -1 and +1 or classes, fixed for the run; None if the method fixes none.
        bounds: smallest and largest value of every entry, (d,) each, if known.
    """

    span: GradientSpan
    labels: torch.Tensor | None
    bounds: tuple[torch.Tensor, torch.Tensor] | None


@dataclass(frozen=True)
class GradientMatching(Attack):
    """Minimises ||Delta_S - sum_i J_S(x_i)^T c_i||^2 and penalties over m candidates x_i and their coefficients.

    The equation is that of `exhume.gradient_span`. Fewer equations than unknowns are refused by the count of the n
    samples, not of the m candidates.

    Attributes:
        parameters: S: "all", "head", "first", "body", or names with commas between them.
        candidates: m / n.
        max_steps: at most so many updates.
        tolerance: stop at this loss, divided by ||Delta_S||^2.
        precision: what is computed in.
    """

    parameters: str = "all"
    candidates: float = 2.0
    max_steps: int = 50_000
    tolerance: float = 1e-8
    precision: Literal["float32", "float64"] = "float64"

    def __post_init__(self) -> None:
        if self.precision not in ("float32", "float64"):
            raise InputError(f"precision is {self.precision!r}; valid: float32, float64")
        if not 1 <= self.candidates < math.inf:
            raise InputError(f"candidates must be at least 1 for each sample, got {self.candidates}")
        if self.max_steps < 0 or self.tolerance < 0:
            raise InputError("max_steps and tolerance must not be negative")

    @abstractmethod
    def equation(self, target: Target) -> GradientSpan:
        """The equation that is solved."""

    @abstractmethod
    def start(self, match: Match, count: int, generator: torch.Generator) -> Tensors:
        """Candidates ("samples") and what coefficients are made from ("weights") to begin with, drawn in float32."""

    @abstractmethod
    def coefficients(self, match: Match, weights: torch.Tensor) -> Coefficients:
        """c_i from the weights."""

    @abstractmethod
    def objective(self, match: Match, values: Tensors, step: int) -> torch.Tensor:
        """What is minimised, at the candidates and weights, after so many steps."""

    @abstractmethod
    def optimiser(self, values: Tensors) -> torch.optim.Optimizer:
        """How a step is taken."""

    @abstractmethod
    def from_initial(self) -> bool:
        """Whether Delta is trained minus initial weights."""

    @abstractmethod
    def per_sample(self, target: Target) -> int:
        """Coefficients of a sample."""

    @abstractmethod
    def notes(self, target: Target, match: Match) -> dict[str, str]:
        """Sentences for the result, by topic."""

    def fixed_labels(self, target: Target, count: int) -> torch.Tensor | None:
        """Labels of the candidates if they are fixed for the run."""
        return None

    @property
    def chosen(self) -> str | list[str]:
        """`parameters` as the equation takes them."""
        names = [name.strip() for name in self.parameters.split(",")]
        return names if len(names) > 1 else names[0]

    def equation_count(self, target: Target, num_samples: int) -> EquationCount:
        """Numbers in S, and unknowns of n samples, homogeneous bodies hiding their norms."""
        per_sample = target.features.input_dim - target.features.symmetry.homogeneous + self.per_sample(target)
        equations = count_equations(target, self.chosen, self.from_initial())
        return EquationCount(equations, num_samples * per_sample)

    def run(self, problem: Problem, session: Session) -> Proposal:
        """Descends until the loss is below the tolerance, the steps or the budget are spent."""
        target = problem.target
        assert problem.num_samples is not None  # the base asks for it
        span = self.equation(target)
        count = math.ceil(self.candidates * problem.num_samples)
        match = Match(span, self.fixed_labels(target, count), _bounds(target, span))
        matched = session.run_stage(_MatchingSearch(self, problem, match, count))
        assert isinstance(matched, _Matched)
        return self._proposal(problem, match, matched)

    def _proposal(self, problem: Problem, match: Match, matched: _Matched) -> Proposal:
        """All candidates, those with the largest share of the weights first."""
        span, samples = match.span, matched.rows
        coefficients = self.coefficients(match, matched.weights)
        outputs = span.outputs(samples)
        if not isinstance(coefficients, torch.Tensor):
            coefficients = coefficients(outputs)
        strength = coefficients.norm(dim=1)
        if span.hides_norms:
            strength = strength * samples.norm(dim=1)
        order = strength.argsort(descending=True)
        samples, coefficients, outputs = samples[order], coefficients[order], outputs[order]
        own = outputs.sign()[:, 0] if outputs.shape[1] == 1 else outputs.argmax(1).to(samples)
        return Proposal(
            samples=samples,
            stop=matched.stop,
            signs_determined=True,
            norms_determined=not span.hides_norms,
            labels=own if match.labels is None else match.labels.to(samples)[order],
            coefficients=coefficients,
            certificate=self._certificate(problem, span, samples, coefficients, matched.stop),
            evidence={"parameters": list(span.names), "candidates": len(samples)},
            notes=self._all_notes(problem.target, match, matched.stop),
        )

    def _certificate(
        self, problem: Problem, span: GradientSpan, samples: torch.Tensor, coefficients: torch.Tensor, stop: Stop
    ) -> Certificate:
        """The residual of the method's own equation, without any smoothing; the verdict is always "failed"."""
        assert problem.num_samples is not None
        with torch.no_grad():
            residual = math.sqrt(float(span.loss(samples, coefficients)))
        counted = self.equation_count(problem.target, problem.num_samples)
        why = _NOT_UNIQUE if stop is Stop.CONVERGED else stop.sentence
        if not counted.determined:
            why = "Fewer equations than unknowns: many different data sets explain these weights."
        rounding = torch.finfo(problem.target.displacement.dtype).eps
        return Certificate(*counted, residual, rounding, None, (), FAILED, why)

    def _all_notes(self, target: Target, match: Match, stop: Stop) -> dict[str, str]:
        span = match.span
        notes = {
            "equation": f"Equation: {span.num_equations} numbers of {', '.join(span.names)}. "
            "Equations and unknowns are counted for the samples sought, not for the candidates."
        }
        if stop is Stop.DIVERGED:
            notes["steps"] = "The step sizes are those published for one kind of victim; take smaller ones."
        if span.left_out:
            notes["left out"] = f"Left out, as their initial weights are not known: {', '.join(span.left_out)}."
        if span.hides_norms:
            notes["norms"] = "Norms: gradients scale with the sample, so only directions are recovered."
        unused = [name for name in ("samples", "norm", "subspace") if getattr(target.knowledge, name) is not None]
        if unused:
            notes["unused"] = f"Known, but of no use to this attack: {', '.join(unused)}."
        if match.bounds is not None:
            notes["pixels"] = "Pixels: the known range was used."
        return notes | self.notes(target, match)


@dataclass(frozen=True)
class _Matched(SearchResult):
    """Candidates, and the weights that their coefficients are made from."""

    weights: torch.Tensor = field(default_factory=lambda: torch.empty(0))


@dataclass(frozen=True)
class _MatchingState:
    """Everything that the next step depends on.

    Attributes:
        values: "samples" (m, d) and "weights" (m,) or (m, k).
        buffers: of the optimiser, for each value.
        step: updates made.
        objective: at the values, for its gradient.
    """

    values: dict[str, torch.Tensor]
    buffers: dict[str, dict[str, torch.Tensor]]
    step: int = 0
    objective: torch.Tensor | None = field(default=None, metadata=NOT_SAVED)


class _MatchingSearch(Search[_MatchingState]):
    state_type = _MatchingState

    def __init__(self, attack: GradientMatching, problem: Problem, match: Match, count: int) -> None:
        assert problem.num_samples is not None
        # Passes are counted in applications to the samples sought.
        self.problem, self.count, self._attack, self._match = problem, problem.num_samples, attack, match
        self._candidates = count
        self._half = count * match.span.passes_per_step // 2  # the loss costs as much as its gradient

    def begin(self, generator: torch.Generator) -> _MatchingState:
        """The method's own start."""
        span, drawn = self._match.span, self._attack.start(self._match, self._candidates, generator)
        values = {name: value.to(span.device, span.dtype) for name, value in drawn.items()}
        return self.restore(_MatchingState(values, {name: {} for name in values}))

    def restore(self, state: _MatchingState) -> _MatchingState:
        """Evaluates the objective."""
        values = {name: value.detach().requires_grad_() for name, value in state.values.items()}
        self._count_half()
        return replace(state, values=values, objective=self._attack.objective(self._match, values, state.step))

    def where(self, state: _MatchingState) -> Where:
        """Steps made."""
        recorded = is_recorded(state.step) and self._loss(state) < _DIVERGED
        return Where(state.step, self._attack.max_steps, self._loss(state), recorded)

    def finished(self, state: _MatchingState) -> Stop | None:
        """By divergence, tolerance or the number of steps."""
        loss = self._loss(state)
        ends = {
            Stop.DIVERGED: not loss < _DIVERGED,
            Stop.CONVERGED: loss <= self._attack.tolerance,
            Stop.STEP_LIMIT: state.step >= self._attack.max_steps,
        }
        return next((why for why, holds in ends.items() if holds), None)

    def advance(self, state: _MatchingState, session: Session) -> _MatchingState | SearchResult:
        """One step of the optimiser; if it diverges, the candidates before it."""
        assert state.objective is not None
        gradients = torch.autograd.grad(state.objective, list(state.values.values()))
        self._count_half()
        values = {name: value.detach().clone() for name, value in state.values.items()}
        optimiser = self._attack.optimiser(values)
        for (name, value), gradient in zip(values.items(), gradients, strict=True):
            value.grad = gradient
            optimiser.state[value] = {key: buffer.clone() for key, buffer in state.buffers[name].items()}
        optimiser.step()
        buffers = {name: dict(optimiser.state[value]) for name, value in values.items()}
        after = self.restore(_MatchingState(values, buffers, state.step + 1))
        return after if self._loss(after) < _DIVERGED else self.give_up(state, Stop.DIVERGED, session)

    def give_up(self, state: _MatchingState, stop: Stop, session: Session) -> SearchResult:
        """The candidates as they are."""
        samples, weights = state.values["samples"].detach(), state.values["weights"].detach()
        return _Matched(samples, self.count, stop, self.problem, 1, state.step, weights=weights)

    def _loss(self, state: _MatchingState) -> float:
        assert state.objective is not None
        return float(state.objective.detach()) / self._match.span.squared_norm

    def _count_half(self) -> None:
        self.problem.features.count(self._half)


def outside(samples: torch.Tensor, bounds: tuple[torch.Tensor, torch.Tensor] | None) -> torch.Tensor:
    """Sum over entries of the squared distance to the known range; zero if none is known."""
    if bounds is None:
        return samples.new_zeros(())
    low, high = bounds
    return (low - samples).relu().square().sum() + (samples - high).relu().square().sum()


def _bounds(target: Target, span: GradientSpan) -> tuple[torch.Tensor, torch.Tensor] | None:
    known = target.knowledge.pixel_bounds(target.input_shape)
    if known is None:
        return None
    low, high = known
    return low.to(span.device, span.dtype), high.to(span.device, span.dtype)
