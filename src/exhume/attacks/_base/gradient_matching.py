"""What `kkt` and `ntk` share: candidates and coefficients moved until their gradients add up to the weights."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch

from exhume.attacks.base import Attack, Problem, ProgressEvent, Proposal
from exhume.attacks.descent import is_noted
from exhume.certificate import FAILED, Certificate
from exhume.errors import InputError
from exhume.gradient_span import Coefficients, GradientSpan, count_equations
from exhume.reconstruction import Stop
from exhume.solvers.first_order import Tensors, Update
from exhume.target import Target

_NOT_UNIQUE = (
    "Other data sets explain the weights by their gradients as well (arXiv 2509.21296), and of more candidates than "
    "samples none can be vouched for; the first have the largest coefficients."
)
# Candidates at zero have a loss of 1. Beyond this one, the steps were too long and lead nowhere.
_LOST = 1e12


@dataclass
class State:
    """All that the next step depends on.

    Attributes:
        values: "samples" (m, d) and "weights", from which coefficients are made: (m,) or (m, k).
        buffers: of the update.
    """

    values: Tensors
    buffers: Tensors
    step: int = 0


@dataclass(frozen=True)
class Search:
    """One run: the equation, the candidates' labels, and what is known of pixels.

    Attributes:
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
    def start(self, problem: Problem, search: Search, count: int) -> Tensors:
        """Samples and weights to begin with, drawn in float32."""

    @abstractmethod
    def coefficients(self, search: Search, weights: torch.Tensor) -> Coefficients:
        """c_i from the weights."""

    @abstractmethod
    def objective(self, search: Search, state: State) -> torch.Tensor:
        """What is minimised."""

    @abstractmethod
    def update(self) -> Update:
        """How a step is taken."""

    @abstractmethod
    def from_initial(self) -> bool:
        """Whether Delta is trained minus initial weights."""

    @abstractmethod
    def per_sample(self, target: Target) -> int:
        """Coefficients of a sample."""

    @abstractmethod
    def notes(self, target: Target, search: Search) -> list[str]:
        """What else is worth telling."""

    def fixed_labels(self, target: Target, count: int) -> torch.Tensor | None:
        """Labels of the candidates if they are fixed for the run."""
        return None

    @property
    def chosen(self) -> str | list[str]:
        """`parameters` as the equation takes them."""
        names = [name.strip() for name in self.parameters.split(",")]
        return names if len(names) > 1 else names[0]

    def counts(self, target: Target, num_samples: int) -> tuple[int, int]:
        """Numbers in S, and unknowns of n samples, homogeneous bodies hiding their norms."""
        per_sample = target.features.input_dim - target.features.symmetry.homogeneous + self.per_sample(target)
        return count_equations(target, self.chosen, self.from_initial()), num_samples * per_sample

    def run(self, problem: Problem) -> Proposal:
        """Descends until the loss is below the tolerance, the steps or the passes are spent."""
        target, ledger = problem.target, problem.features.ledger
        assert problem.num_samples is not None  # the base asks for it
        span = self.equation(target)
        count = math.ceil(self.candidates * problem.num_samples)
        labels = self.fixed_labels(target, count)
        search = Search(span, labels, _bounds(target, span))
        state, history = self._begin(problem, search, count)
        half = count * span.passes_per_step // 2  # the loss costs as much as its gradient
        update, last = self.update(), state.values
        while True:
            for value in state.values.values():
                value.requires_grad_()
            objective = self.objective(search, state)
            loss = float(objective.detach()) / span.squared_norm
            ledger.add(half, problem.features.num_features)
            reason = self._ended(problem, state.step, loss)
            if is_noted(state.step) and reason is not Stop.DIVERGED:
                for name, number in (("step", state.step), ("loss", loss), ("passes", ledger.passes)):
                    history[name].append(float(number))
                problem.progress(ProgressEvent(state.step, self.max_steps, loss, ledger.passes))
            if reason is not None:
                break
            gradients = torch.autograd.grad(objective, list(state.values.values()))
            last = state.values
            state.values = {name: value.detach().clone() for name, value in last.items()}
            # What was just computed is computed again after a resume, so it is not yet in the saved count.
            self._save(problem, state, ledger.work - half * problem.features.num_features, history)
            ledger.add(half, problem.features.num_features)
            update.apply(state.values, dict(zip(last, gradients, strict=True)), state.buffers, state.step)
            state.step += 1
        if reason is Stop.DIVERGED:
            state.values = last
        else:
            problem.progress(ProgressEvent(state.step, state.step, loss, ledger.passes))
        values = {name: value.detach() for name, value in state.values.items()}
        return self._proposal(problem, search, values, reason, state.step, history)

    def _ended(self, problem: Problem, step: int, loss: float) -> Stop | None:
        ends = {
            Stop.DIVERGED: not loss < _LOST,
            Stop.CONVERGED: loss <= self.tolerance,
            Stop.STEP_LIMIT: step >= self.max_steps,
        }
        return next((why for why, holds in ends.items() if holds), problem.spent())

    def _begin(self, problem: Problem, search: Search, count: int) -> tuple[State, dict[str, list[float]]]:
        saved, span = problem.checkpoint.load(), search.span
        if saved is None:
            drawn = self.start(problem, search, count)
            values = {name: value.to(span.device, span.dtype) for name, value in drawn.items()}
            return State(values, self.update().start(values)), {"step": [], "loss": [], "passes": []}
        tensors, numbers = saved
        tensors = {name: tensor.to(span.device, span.dtype) for name, tensor in tensors.items()}
        problem.features.ledger.work = int(numbers["work"])
        history = {name: [float(value) for value in column] for name, column in numbers["history"].items()}
        step = int(numbers["step"])
        if history["step"] and history["step"][-1] >= step:
            history = {name: column[:-1] for name, column in history.items()}
        values = {name: tensors.pop(name) for name in ("samples", "weights")}
        return State(values, tensors, step), history

    def _save(self, problem: Problem, state: State, work: int, history: dict[str, list[float]]) -> None:
        problem.checkpoint.save_if_due(
            lambda: (state.values | state.buffers, {"step": state.step, "work": work, "history": history})
        )

    def _proposal(
        self,
        problem: Problem,
        search: Search,
        values: Tensors,
        reason: Stop,
        steps: int,
        history: dict[str, list[float]],
    ) -> Proposal:
        """All candidates, those with the largest share of the weights first."""
        span, samples = search.span, values["samples"]
        coefficients = self.coefficients(search, values["weights"])
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
            stop=reason,
            steps=steps,
            signs_determined=True,
            norms_determined=not span.hides_norms,
            labels=own if search.labels is None else search.labels.to(samples)[order],
            coefficients=coefficients,
            certificate=self._certificate(problem, span, samples, coefficients, reason),
            evidence={"parameters": list(span.names), "candidates": len(samples)},
            history=history,
            notes=tuple(self._all_notes(problem.target, search, reason)),
        )

    def _certificate(
        self, problem: Problem, span: GradientSpan, samples: torch.Tensor, coefficients: torch.Tensor, reason: Stop
    ) -> Certificate:
        """The residual of the method's own equation, without any smoothing; the verdict is always "failed"."""
        assert problem.num_samples is not None
        with torch.no_grad():
            residual = math.sqrt(float(span.loss(samples, coefficients)))
        equations, unknowns = self.counts(problem.target, problem.num_samples)
        why = _NOT_UNIQUE if reason is Stop.CONVERGED else reason.sentence
        if equations <= unknowns:
            why = "Fewer equations than unknowns: many different data sets explain these weights."
        rounding = torch.finfo(problem.target.displacement.dtype).eps
        return Certificate(equations, unknowns, residual, rounding, None, (), FAILED, why)

    def _all_notes(self, target: Target, search: Search, reason: Stop) -> list[str]:
        span = search.span
        notes = [
            f"Equation: {span.num_equations} numbers of {', '.join(span.names)}. "
            "Equations and unknowns are counted for the samples sought, not for the candidates."
        ]
        if reason is Stop.DIVERGED:
            notes.append("The step sizes are those published for one kind of victim; take smaller ones.")
        if span.left_out:
            notes.append(f"Left out, as their initial weights are not known: {', '.join(span.left_out)}.")
        if span.hides_norms:
            notes.append("Norms: gradients scale with the sample, so only directions are recovered.")
        unused = [name for name in ("samples", "norm", "subspace") if getattr(target.knowledge, name) is not None]
        if unused:
            notes.append(f"Known, but of no use to this attack: {', '.join(unused)}.")
        if search.bounds is not None:
            notes.append("Pixels: the known range was used.")
        return notes + self.notes(target, search)


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
