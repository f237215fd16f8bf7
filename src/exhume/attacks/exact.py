"""The exact attack: second-order, certified, with signs, norms and labels, near the information limit p = dn."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from exhume.activations import Activation
from exhume.attacks.ambiguities import choose_signs, norms_and_labels, reflection
from exhume.attacks.base import Attack, Problem, ProgressEvent, Proposal, count_unknowns
from exhume.attacks.sample_count import DENSE_DIM, drop_while_solved, estimate_samples, visible_directions
from exhume.attacks.search import STEPS_PER_START, Outcome, Search, SearchState
from exhume.errors import InputError
from exhume.features import RowFeatureMap
from exhume.nuisance import Nuisance
from exhume.reconstruction import Stop
from exhume.solvers import Inner, Patience, levenberg_marquardt
from exhume.span import Point, Span

# Inputs per sample up to which the linear part is projected out exactly: its d x d matrix costs d/n passes a step
# where the step itself costs about 20. Above, the linear part is solved for jointly.
_PROJECT_DIM_PER_SAMPLE = 10
# The free linear part costs k d equations: it is used where this many times the unknowns are left.
_EQUATIONS_LEFT = 1.05
# Entries of V up to which a float32 victim's samples are polished in float64 too.
_CHEAP_IN_DOUBLE = 2**24
_RIDGE = 1e-6
_HERMITE_ZERO = 1e-6
# How far the residual's eigenvalues must stand out from those of noise to be called structure.
_STRUCTURE_MARGIN = 1.15


@dataclass(frozen=True)
class Exact(Attack):
    """Gauss-Newton on the span equation: search, signs, norms, labels and a polish to floating-point precision.

    Nothing needs tuning: the choices are made from the target and reported in the result's notes.

    Attributes:
        max_starts: independent starts of the search at most.
        max_seconds: stop the search after this time; None sets no limit. With it, results depend on the machine.
    """

    name: ClassVar[str] = "exact"
    estimates_samples: ClassVar[bool] = True

    max_starts: int = 8
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.max_starts < 1:
            raise InputError(f"max_starts must be at least 1, got {self.max_starts}")
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise InputError(f"max_seconds must be positive, got {self.max_seconds}")

    def run(self, problem: Problem) -> Proposal:
        """Searches in float32, then decides signs and polishes."""
        if not isinstance(problem.target.feature_map, RowFeatureMap):
            raise InputError("exact attacks features of the form act(V x), such as random features, and no others yet")
        monitor = Monitor(problem, self)
        evidence: dict[str, Any] = {}
        if problem.num_samples is None:
            count, outcome, evidence = estimate_samples(problem, monitor)
        else:
            count = problem.num_samples
            outcome = monitor.search(monitor.span_for(count), count)
            if outcome.found:
                tried: list[list[float]] = []
                count, outcome = drop_while_solved(monitor, count, outcome, tried, thorough=False)
                evidence = {"residuals": tried} if tried else {}
        proposal = finish(problem, count, outcome, monitor)
        if problem.num_samples is not None and count < problem.num_samples:
            idle = f"Samples: {count} of the {problem.num_samples} looked for explain the weights; the rest was idle."
            proposal = replace(proposal, notes=(*proposal.notes, idle))
        return replace(proposal, evidence=evidence | {"starts": outcome.starts})


class Monitor:
    """Watches a search: progress, history, checkpoints, and the budgets that end it."""

    def __init__(self, problem: Problem, attack: Exact) -> None:
        self.problem, self._attack = problem, attack
        self.history: dict[str, list[float]] = {"step": [], "loss": [], "passes": []}
        self.ended: Stop | None = None
        self.steps = 0
        self._searches = 0
        self._started = time.monotonic()

    def span_for(self, count: int) -> Span:
        """The equation to search in for so many samples."""
        return working_span(self.problem, count)

    def search(
        self, span: Span, count: int, *, max_starts: int | None = None, steps_per_start: int = STEPS_PER_START
    ) -> Outcome:
        """Runs a search for `count` samples, or resumes it if the checkpoint is of this one."""
        self._searches += 1
        activation = span.features.activation
        search = Search(
            span,
            count,
            spectral=abs(float(activation.hermite(2)[2])) > _HERMITE_ZERO,
            free_norms=activation.identifies_norm,
            max_starts=max_starts or self._attack.max_starts,
            steps_per_start=steps_per_start,
            keep_going=self._keep_going,
            within_budget=self.within_budget,
        )
        return search.run(self._resumed() or search.begin(self.problem.generator))

    def note(self, loss: float) -> None:
        """Adds a point to the history."""
        passes = self.problem.features.ledger.passes
        for name, value in (("step", self.steps), ("loss", loss), ("passes", passes)):
            self.history[name].append(float(value))

    def _keep_going(self, state: SearchState) -> bool:
        problem, loss = self.problem, state.residual**2
        self.note(loss)
        total = self._attack.max_starts * STEPS_PER_START
        done = (state.start - 1) * STEPS_PER_START + state.step
        problem.progress(ProgressEvent(done, total, loss, problem.features.ledger.passes))
        problem.checkpoint.save_if_due(lambda: self._saved(state))
        self.steps += 1
        return self.within_budget()

    def within_budget(self) -> bool:
        """Whether passes and time are left; notes which of them ran out."""
        limit = self._attack.max_seconds
        if self.problem.out_of_passes():
            self.ended = Stop.PASS_LIMIT
        elif limit is not None and time.monotonic() - self._started > limit:
            self.ended = Stop.TIME_LIMIT
        return self.ended is None

    def _saved(self, state: SearchState) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        tensors, numbers = state.save()
        ledger = self.problem.features.ledger
        numbers |= {"search": self._searches, "steps": self.steps, "work": ledger.work}
        return tensors, numbers | {"history": self.history}

    def _resumed(self) -> SearchState | None:
        saved = self.problem.checkpoint.load()
        if saved is None or saved[1]["search"] != self._searches:
            return None  # an earlier search of the same run is made again, and comes out the same
        tensors, numbers = saved
        self.steps = int(numbers["steps"])
        self.problem.features.ledger.work = int(numbers["work"])
        self.history = {name: column[:-1] for name, column in numbers["history"].items()}
        state = SearchState.load(tensors, numbers, self.problem.features.device)
        self.problem.generator.set_state(state.generator.get_state())
        state.generator = self.problem.generator
        return state


def working_span(problem: Problem, count: int, dtype: torch.dtype = torch.float32) -> Span:
    """The equation that is easiest to search: abs for relu, linear and constant parts free where it pays."""
    features = problem.features.with_dtype(dtype)
    activation = features.activation
    left = problem.target.num_outputs * (features.num_features - features.input_dim)
    linear = activation.parity != "even" and left > _EQUATIONS_LEFT * count_unknowns(problem.target, count)
    if linear and activation.name == "relu":
        features = features.with_activation("abs")
    constant = activation.homogeneity is None and abs(float(activation.hermite(0)[0])) > _HERMITE_ZERO
    nuisance = Nuisance(linear, constant, joint=linear and features.input_dim > _PROJECT_DIM_PER_SAMPLE * count)
    ridge = _RIDGE if dtype == torch.float32 else 1e-13
    return Span(features, problem.target.displacement, nuisance, ridge=ridge)


def finish(problem: Problem, count: int, outcome: Outcome, monitor: Monitor) -> Proposal:
    """Turns rows of the working equation into samples: refined, signed, polished, with norms and labels."""
    target, activation = problem.target, problem.target.feature_map.activation
    radius = math.sqrt(target.feature_map.input_dim)
    span = working_span(problem, count)
    # Found rows are near enough to read the signs off; others are taken to the bottom of their minimum first.
    patience = Patience(0 if outcome.found or monitor.ended else 8, window=3)
    point = levenberg_marquardt(span, outcome.rows, patience, radius=radius, inner=Inner(20, 0.03))
    free_norms = activation.identifies_norm
    wide = target.feature_map.num_features * target.feature_map.input_dim
    double = target.feature_map.dtype == torch.float64 or wide <= _CHEAP_IN_DOUBLE
    settled = outcome.found or outcome.reproduced
    if free_norms and settled:
        span, point = _free_the_norms(problem, count, point, double)
    signs = choose_signs(span, point, activation)
    notes = [_choices(span, activation, double), signs.note]
    samples = signs.samples
    if settled:
        samples = _polish(problem, samples, None if free_norms else radius, double, monitor)
    outputs = problem.features.with_dtype(samples.dtype).forward(samples) @ target.displacement.to(samples.dtype).T
    labelled = norms_and_labels(samples, outputs, activation, target.knowledge.label_alphabet)
    return Proposal(
        samples=labelled.samples,
        labels=labelled.labels if signs.determined or activation.parity == "even" else None,
        stop=_reason(problem, samples, outcome, monitor),
        steps=monitor.steps,
        signs_determined=signs.determined,
        norms_determined=labelled.norms_determined,
        norms_solved=free_norms,
        history=monitor.history,
        notes=(*notes, labelled.note),
    )


def _free_the_norms(problem: Problem, count: int, point: Point, double: bool) -> tuple[Span, Point]:
    """Fits samples of any norm beside the nuisance, precisely enough to read the signs off it."""
    span = working_span(problem, count, torch.float64 if double else torch.float32)
    rows = point.rows.to(span.features.dtype)
    patience = Patience(30, 1e-11 if double else 1e-7, window=6, fall=0.5)
    inner, least = Inner(40, 0.03), 1e-12 if double else 1e-7
    return span, levenberg_marquardt(span, rows, patience, radius=None, inner=inner, damping=1e-4, least_damping=least)


def _polish(
    problem: Problem, samples: torch.Tensor, radius: float | None, double: bool, monitor: Monitor
) -> torch.Tensor:
    """Solves the plain equation, nothing free, to the floor of its precision."""

    def watch(point: Point) -> bool:
        monitor.steps += 1
        monitor.note(point.loss)
        return True

    stages = [(torch.float32, Inner(20, 0.03), 1e-4, 1e-7, 1e-7)]
    if double:
        stages.append((torch.float64, Inner(40, 0.01), 1e-6, 1e-12, 1e-13))
    if samples.dtype == torch.float64:
        stages = stages[1:]
    for dtype, inner, damping, least, ridge in stages:
        span = Span(problem.features.with_dtype(dtype), problem.target.displacement, ridge=ridge)
        # A step that does not halve the loss has met noise: of rounding, or of the weights themselves.
        patience = Patience(12, 1e-7 if dtype == torch.float32 else 1e-13, window=1, fall=0.5)
        samples = levenberg_marquardt(
            span,
            samples.to(dtype),
            patience,
            radius=radius,
            inner=inner,
            damping=damping,
            least_damping=least,
            watch=watch,
        ).samples
    return samples


def _reason(problem: Problem, samples: torch.Tensor, outcome: Outcome, monitor: Monitor) -> Stop:
    """Why it ended. A minimum that was reached twice is only trusted if nothing but noise is left over."""
    if outcome.found:
        return Stop.CONVERGED
    if not outcome.reproduced:
        return monitor.ended or Stop.STARTS_SPENT
    span = Span(problem.features.with_dtype(samples.dtype), problem.target.displacement)
    if span.features.input_dim <= DENSE_DIM:
        left = span.at(samples).residual
        if visible_directions(span, left, problem.generator, margin=_STRUCTURE_MARGIN):
            return Stop.STRUCTURED
    return Stop.REPRODUCED


def _choices(span: Span, activation: Activation, double: bool) -> str:
    parts = []
    if span.nuisance.linear:
        how = "solved for jointly" if span.nuisance.joint else "projected out"
        parts.append(f"linear part {how}")
    if span.nuisance.constant:
        parts.append("constant part projected out")
    if span.features.activation.name != activation.name:
        parts.append(f"searched with {span.features.activation.name} for {activation.name}")
    parts.append(f"{reflection(activation)} reflection, polished in {'float64' if double else 'float32'}")
    return f"Choices: {', '.join(parts)}."
