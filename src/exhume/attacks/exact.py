"""The exact attack: second-order, certified, with signs, norms and labels, near the information limit p = dn."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from exhume.attacks import basis_search
from exhume.attacks.ambiguities import Labelled, choose_signs, norms_and_labels
from exhume.attacks.base import Attack, Problem, Proposal, counted
from exhume.attacks.coordinates import BY_SUBSETS, IN_A_BASIS, readings, witness
from exhume.attacks.drift import drift_of, take_out_drift
from exhume.attacks.monitor import Monitor
from exhume.attacks.sample_count import drop_while_solved, estimate_samples, samples_by_rank, visible_directions
from exhume.attacks.search import Outcome
from exhume.attacks.working import HERMITE_ZERO, choices, working_span
from exhume.errors import InputError
from exhume.reconstruction import Stop
from exhume.solvers import Inner, Patience, levenberg_marquardt
from exhume.span import Point, Span
from exhume.target import Target

# Entries of V up to which a float32 victim's samples are polished in float64 too.
_CHEAP_IN_DOUBLE = 2**24
# How far the residual's eigenvalues must stand out from those of noise to be called structure.
_STRUCTURE_MARGIN = 1.15
# Relative residual up to which a minimum is trusted where structure in it could not be seen.
_BLIND_RESIDUAL = 0.05
# Starts of the direct search where another search can take over.
_DIRECT_STARTS = 1
_DRIFT_RIDGE = 1e-7
# How exactly large problems are polished: two rough steps reach the floor with fewer passes than one exact step.
_LARGE_INNER = Inner(10, 0.1)
# Starts of the search on a part of the coordinates, before more of them are read.
_STARTS_ON_A_PART = 2


@dataclass(frozen=True)
class Exact(Attack):
    """Gauss-Newton on the span equation: search, signs, norms, labels and a polish to floating-point precision.

    Nothing needs tuning: the choices are made from the target and reported in the result's notes.

    Attributes:
        max_starts: independent starts of the search at most.

    Examples:
        >>> import exhume
        >>> from exhume import data
        >>> sphere = data.load("sphere", dim=8, samples=4)
        >>> victim = exhume.RandomFeatures(num_features=200).fit(sphere.inputs, sphere.labels)
        >>> exhume.Exact(max_starts=2)(victim.target(), num_samples=4).certificate.verdict
        'exact'
    """

    name: ClassVar[str] = "exact"
    estimates_samples: ClassVar[bool] = True
    can_be_sharded: ClassVar[bool] = True

    max_starts: int = 8

    def __post_init__(self) -> None:
        if self.max_starts < 1:
            raise InputError(f"max_starts must be at least 1, got {self.max_starts}")

    def run(self, problem: Problem) -> Proposal:
        """Searches, then decides signs and polishes."""
        if problem.target.features.input_dim < 2:
            raise InputError(
                "a sample of one number has no direction to recover; the input dimension must be at least 2"
            )
        monitor = Monitor(problem, max_starts=self.max_starts)
        proposal = self._directly(problem, monitor)
        return proposal if proposal is not None else self._by_rows(problem, monitor)

    def _directly(self, problem: Problem, monitor: Monitor) -> Proposal | None:
        """By the direct search, where there are several outputs or a body of any kind; None leaves it to `_by_rows`."""
        by_rows = problem.features.is_row_map and not problem.features.has_offset
        informed = problem.target.knowledge.known_samples > 0 and problem.num_samples is not None
        if by_rows and problem.target.num_outputs == 1 and not informed:
            return None
        rank = None if problem.num_samples else samples_by_rank(problem.target)
        count = problem.num_samples or (None if rank is None else rank - problem.target.knowledge.known_samples)
        if count is not None and count < 1:
            raise InputError(f"the weights show {rank} samples, and as many are known; nothing is left to look for")
        if count is None and by_rows:
            return None
        if count is None:
            raise InputError(
                f"the number of samples does not show in a head of {problem.target.num_outputs} outputs; "
                "pass num_samples (--num-samples)"
            )
        subsets = by_rows and _affords_subsets(problem, count)
        starts = _DIRECT_STARTS if subsets and not informed else self.max_starts
        outcome = monitor.direct(count, min(self.max_starts, starts))
        if subsets and not outcome.settled and monitor.ended is None:
            return None
        proposal = finish_directly(problem, outcome, monitor)
        evidence = {} if rank is None else {"rank": rank}
        return replace(proposal, evidence=proposal.evidence | evidence | {"starts": outcome.starts})

    def _by_rows(self, problem: Problem, monitor: Monitor) -> Proposal:
        """By the searches that read subsets of coordinates, for features of the form act(V x)."""
        evidence: dict[str, Any] = {}
        if problem.num_samples is None:
            count, outcome, evidence = estimate_samples(problem, monitor)
        else:
            count = problem.num_samples
            outcome = self._search(problem, count, monitor)
            if outcome.found:
                tried: list[list[float]] = []
                count, outcome = drop_while_solved(monitor, count, outcome, tried, thorough=False)
                evidence = {"residuals": tried} if tried else {}
        if monitor.problem is problem:
            proposal = finish(problem, count, outcome, monitor)
        else:
            proposal = finish_on_a_part(problem, count, outcome, monitor)
        if problem.num_samples is not None and count < problem.num_samples:
            idle = f"Samples: {count} of the {problem.num_samples} looked for explain the weights; the rest was idle."
            proposal = replace(proposal, notes=(*proposal.notes, idle))
        return replace(proposal, evidence=proposal.evidence | evidence | {"starts": outcome.starts})

    def _search(self, problem: Problem, count: int, monitor: Monitor) -> Outcome:
        """Searches on a few of the coordinates, then on more; leaves those that were read last with the monitor."""
        in_basis = basis_search.fits(problem, count)
        rows = None
        for read in readings(problem, IN_A_BASIS if in_basis else BY_SUBSETS):
            monitor.problem = read
            span = monitor.span_for(count)
            if in_basis:
                outcome = monitor.in_basis(span, count)
                if outcome.found or monitor.ended:
                    break
                rows = outcome.rows
            last = read is problem
            if last or not in_basis:
                starts = self.max_starts if last else min(self.max_starts, _STARTS_ON_A_PART)
                outcome = monitor.search(span, count, max_starts=starts, rows=rows)
                if outcome.found or monitor.ended:
                    break
            del span  # it may hold what is kept of V, and the next reading keeps more
        return outcome


def finish_on_a_part(problem: Problem, count: int, outcome: Outcome, monitor: Monitor) -> Proposal:
    """Finishes on the coordinates that the monitor's problem has, and lets the others say whether they agree.

    Where the search did not find the samples, all are read: there is noise, and more of them drown it. Where the others
    do not agree, the search goes on with all of them.
    """
    read, monitor.problem = monitor.problem, problem
    if not outcome.found:
        del read  # and what is kept of V with it
        return finish(problem, count, outcome, monitor)
    proposal = finish(read, count, outcome, monitor)
    seen = witness(problem, read, proposal.samples)
    if not seen.confirms:
        del read, proposal
        outcome = monitor.search(monitor.span_for(count), count, rows=outcome.rows)
        return finish(problem, count, outcome, monitor)
    labelled = _labelled(problem, proposal.samples, proposal.stop, seen.outputs)
    # The norms of homogeneous features are read off the outputs of all coordinates, and coefficients go with them.
    sizes = proposal.samples.norm(dim=1) / labelled.samples.norm(dim=1)
    coordinates = read.features.num_features
    told = (
        f"Coordinates: {coordinates} of {problem.features.num_features} were read; the others, read once, are "
        f"explained to a relative residual of {seen.unread:.1e}."
    )
    return replace(
        proposal,
        samples=labelled.samples,
        labels=labelled.labels if proposal.labels is not None else None,
        norms_determined=labelled.norms_determined,
        judged=read,
        coefficients=seen.coefficients * sizes[:, None].to(seen.coefficients),
        residual=seen.residual,
        evidence={"coordinates": coordinates, "unread_residual": seen.unread},
        notes=(*proposal.notes[:-1], labelled.note, told),
    )


def finish(problem: Problem, count: int, outcome: Outcome, monitor: Monitor) -> Proposal:
    """Turns rows of the working equation into samples: refined, signed, polished, with norms and labels."""
    problem = replace(problem, features=problem.features.kept_as_it_fits())  # no search holds any of V by now
    target, activation = problem.target, problem.features.activation
    radius = problem.radius
    span = working_span(problem, count)
    # Found rows are near enough to read the signs off; others are taken to the bottom of their minimum first.
    patience = Patience(0 if outcome.found or monitor.ended else 8, window=3)
    point = levenberg_marquardt(span, outcome.rows, patience, radius=radius, inner=Inner(20, 0.03))
    free_norms = problem.norms_open
    double = _affords_double(target)
    settled = outcome.settled
    if free_norms and settled:
        span, point = _free_the_norms(problem, count, point, double)
    signs = choose_signs(span, point, activation, target.knowledge.samples)
    signs_open = not signs.determined and activation.parity == "none"
    notes = [choices(span, activation, double), signs.note]
    samples = signs.samples
    drift = None
    if settled and not signs_open:
        samples = _polish(problem, samples, None if free_norms else radius, double, monitor)
        if not outcome.found:
            drift = take_out_drift(problem, samples, None if free_norms else radius, _DRIFT_RIDGE, monitor.count)
    if drift is not None:
        samples = drift.samples
        notes.append(drift.note)
    stop = Stop.SIGNS_OPEN if settled and signs_open else _reason(problem, samples, outcome, monitor)
    labelled = _labelled(problem, samples, stop)
    return Proposal(
        samples=labelled.samples,
        labels=labelled.labels if signs.determined or activation.parity == "even" else None,
        stop=stop,
        steps=monitor.steps,
        signs_determined=signs.determined,
        norms_determined=labelled.norms_determined,
        norms_solved=free_norms,
        **drift_of(drift),
        history=monitor.history_in_passes(count),
        notes=(*notes, labelled.note),
    )


def finish_directly(problem: Problem, outcome: Outcome, monitor: Monitor) -> Proposal:
    """Turns rows of the plain equation into samples: polished, or freed of drift, with norms and labels."""
    target, symmetry = problem.target, problem.features.symmetry
    radius = None if problem.norms_open else problem.radius
    samples, drift, double = outcome.rows, None, _affords_double(target)
    notes = ["Choices: solved directly on all coordinates from random rows."]
    if outcome.found:
        samples = _polish(problem, samples, radius, double, monitor)
    elif outcome.floor:
        drift = take_out_drift(problem, samples, radius, _DRIFT_RIDGE, monitor.count)
    if drift is not None:
        samples = drift.samples
        notes.append(drift.note)
    hidden = {"even": "an even", "odd": "an odd"}.get(symmetry.parity)
    notes.append(
        f"Signs: the features are {hidden} function of the input, which hides them for good."
        if hidden
        else "Signs: solved for together with the samples."
    )
    stop = Stop.CONVERGED if outcome.found else Stop.FLOOR if outcome.floor else monitor.ended or Stop.STARTS_SPENT
    labelled = _labelled(problem, samples, stop)
    return Proposal(
        samples=labelled.samples,
        labels=labelled.labels if symmetry.parity != "odd" else None,
        stop=stop,
        steps=monitor.steps,
        signs_determined=hidden is None,
        norms_determined=labelled.norms_determined,
        norms_solved=problem.norms_open,
        **drift_of(drift),
        history=monitor.history_in_passes(samples.shape[0]),
        notes=(*notes, labelled.note),
    )


def _affords_subsets(problem: Problem, count: int) -> bool:
    """Whether half of the coordinates determine more than a linear part and coefficients."""
    known, features = problem.target.knowledge.known_samples, problem.features
    return features.num_features >= 4 * (count + known + features.input_dim)


def _affords_double(target: Target) -> bool:
    """Whether to polish in float64: always for a float64 victim, and where it is cheap."""
    wide = target.features.num_features * target.features.input_dim
    return target.features.dtype == torch.float64 or wide <= _CHEAP_IN_DOUBLE


def _labelled(problem: Problem, samples: torch.Tensor, stop: Stop, outputs: torch.Tensor | None = None) -> Labelled:
    """Norms and labels from the trained model's outputs; no norms if the search came to nothing."""
    features = problem.features.with_dtype(samples.dtype)
    if outputs is None:
        outputs = problem.target.outputs(features.forward(samples))
    equations, unknowns = counted(problem.target, len(samples))
    explained = stop.trusted or stop in (Stop.STRUCTURED, Stop.SIGNS_OPEN)
    credible = explained and equations > unknowns
    return norms_and_labels(samples, outputs, features.symmetry, problem.target.knowledge, credible)


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

    stages = [(torch.float32, Inner(20, 0.03) if double else _LARGE_INNER, 1e-4, 1e-7, 1e-7)]
    if double:
        stages.append((torch.float64, Inner(40, 0.01), 1e-6, 1e-12, 1e-13))
    if samples.dtype == torch.float64:
        stages = stages[1:]
    for dtype, inner, damping, least, ridge in stages:
        span = problem.span(problem.features.with_dtype(dtype), ridge=ridge)
        # A step that does not halve the loss has met noise: of rounding, or of the weights themselves.
        patience = Patience(12, 1e-7 if dtype == torch.float32 else 1e-13, window=1, fall=0.5 if double else 0.25)
        samples = levenberg_marquardt(
            span,
            samples.to(dtype),
            patience,
            radius=radius,
            inner=inner,
            damping=damping,
            least_damping=least,
            watch=monitor.count,
        ).samples
    return samples


def _reason(problem: Problem, samples: torch.Tensor, outcome: Outcome, monitor: Monitor) -> Stop:
    """Why it ended. A minimum that was reached twice is only trusted if nothing but noise is left over."""
    if outcome.found:
        return Stop.CONVERGED
    if outcome.floor:
        return Stop.FLOOR
    if not outcome.reproduced:
        return monitor.ended or Stop.STARTS_SPENT
    span = problem.span(problem.features.with_dtype(samples.dtype))
    point = span.at(samples)
    left = point.residual
    blind = abs(float(problem.features.activation.hermite(2)[2])) < HERMITE_ZERO  # odd: second moments see nothing
    if blind and math.sqrt(point.loss) > _BLIND_RESIDUAL:
        return Stop.STRUCTURED
    if visible_directions(span, left, problem.generator, margin=_STRUCTURE_MARGIN):
        return Stop.STRUCTURED
    return Stop.REPRODUCED
