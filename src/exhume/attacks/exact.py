"""The exact attack: second-order, certified, with signs, norms and labels, near the information limit p = dn."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from exhume.attacks.ambiguities import choose_signs, norms_and_labels
from exhume.attacks.base import Attack, Problem, Proposal
from exhume.attacks.monitor import Monitor
from exhume.attacks.sample_count import drop_while_solved, estimate_samples, visible_directions
from exhume.attacks.search import Outcome
from exhume.attacks.working import choices, working_span
from exhume.errors import InputError
from exhume.features import RowFeatureMap
from exhume.reconstruction import Stop
from exhume.solvers import Inner, Patience, levenberg_marquardt
from exhume.span import Point, Span

# Entries of V up to which a float32 victim's samples are polished in float64 too.
_CHEAP_IN_DOUBLE = 2**24
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
        if not isinstance(problem.target.features, RowFeatureMap):
            raise InputError("exact attacks features of the form act(V x), such as random features, and no others yet")
        if problem.target.features.input_dim < 2:
            raise InputError(
                "a sample of one number has no direction to recover; the input dimension must be at least 2"
            )
        monitor = Monitor(problem, max_starts=self.max_starts, max_seconds=self.max_seconds)
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


def finish(problem: Problem, count: int, outcome: Outcome, monitor: Monitor) -> Proposal:
    """Turns rows of the working equation into samples: refined, signed, polished, with norms and labels."""
    target, activation = problem.target, problem.target.features.activation
    radius = math.sqrt(target.features.input_dim)
    span = working_span(problem, count)
    # Found rows are near enough to read the signs off; others are taken to the bottom of their minimum first.
    patience = Patience(0 if outcome.found or monitor.ended else 8, window=3)
    point = levenberg_marquardt(span, outcome.rows, patience, radius=radius, inner=Inner(20, 0.03))
    free_norms = activation.identifies_norm
    wide = target.features.num_features * target.features.input_dim
    double = target.features.dtype == torch.float64 or wide <= _CHEAP_IN_DOUBLE
    settled = outcome.found or outcome.reproduced
    if free_norms and settled:
        span, point = _free_the_norms(problem, count, point, double)
    signs = choose_signs(span, point, activation)
    signs_open = not signs.determined and activation.parity == "none"
    notes = [choices(span, activation, double), signs.note]
    samples = signs.samples
    if settled and not signs_open:
        samples = _polish(problem, samples, None if free_norms else radius, double, monitor)
    outputs = problem.features.with_dtype(samples.dtype).forward(samples) @ target.displacement.to(samples.dtype).T
    labelled = norms_and_labels(samples, outputs, activation, target.knowledge.label_alphabet)
    return Proposal(
        samples=labelled.samples,
        labels=labelled.labels if signs.determined or activation.parity == "even" else None,
        stop=Stop.SIGNS_OPEN if settled and signs_open else _reason(problem, samples, outcome, monitor),
        steps=monitor.steps,
        signs_determined=signs.determined,
        norms_determined=labelled.norms_determined,
        norms_solved=free_norms,
        history=monitor.history_in_passes(count),
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
    left = span.at(samples).residual
    if visible_directions(span, left, problem.generator, margin=_STRUCTURE_MARGIN):
        return Stop.STRUCTURED
    return Stop.REPRODUCED
