"""The subspace attack: reconstruction inside a subspace that holds the data, with the wall at p = rn, not p = dn."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch

from exhume import subspaces
from exhume.attacks.ambiguities import norms_and_labels
from exhume.attacks.base import Attack, Problem, Proposal, counted
from exhume.attacks.exact import Exact, finish, finish_directly
from exhume.attacks.floor import stands_clear
from exhume.attacks.inside import inside, lift
from exhume.attacks.monitor import Monitor
from exhume.attacks.retrace import Retraced, Retracing, Start
from exhume.attacks.search import FOUND, Outcome
from exhume.attacks.spectral import moment_spectrum, strongest_output
from exhume.attacks.working import RIDGE, working_span
from exhume.errors import InputError
from exhume.features import FeatureMap, FirstLayerMap, ModuleFeatureMap
from exhume.features.both_ends import BothEnds
from exhume.features.reduced import reduced
from exhume.features.stored import fastest
from exhume.reconstruction import Stop
from exhume.solvers import Inner, Patience, levenberg_marquardt, onto_sphere
from exhume.subspaces import DataSubspace
from exhume.target import Target

# Relative residual up to which retracing the training is worth a try.
_NEAR = 0.3
# How many times the share of the residual that features at both ends left, of what they changed, is taken for the
# error: a margin, since what they miss need not look like what they changed.
_CAUTION = 2.0
_POLISH = Patience(60, 1e-6, window=6, fall=0.9)
_BETWEEN = Patience(40, 1e-10, window=4, fall=0.97)


@dataclass(frozen=True)
class Subspace(Attack):
    """Finds a subspace that holds the data and solves the span equation inside it, as `exact` would.

    Attributes:
        source: "auto" takes a given subspace (`Knowledge.subspace`), else that of the first layer's displacement, else,
            for random features, one estimated from moments; or one of "given", "first-layer", "moments".
        dim: of a subspace estimated from moments.
        refine: where a network's initial weights are known, use features at both ends of training, and retrace it if it
            has two layers.
        retrace_passes: budget of the retracing, in feature passes; 0 leaves it out.
        polish: solve the equation once more in all dimensions, from what was found in the subspace; not where features
            drifted, which costs more than it gains.
        max_starts: independent starts at most.

    Examples:
        >>> import exhume
        >>> from exhume import data
        >>> sphere = data.load("sphere", dim=60, samples=4, subspace_dim=5)
        >>> victim = exhume.RandomFeatures(num_features=150).fit(sphere.inputs, sphere.labels)
        >>> exhume.forecast(150, input_dim=60, num_samples=4).verdict
        'labels only'
        >>> span = sphere.inputs.T.svd().U.T  # somebody who knows where the data lie needs fewer weights
        >>> target = victim.target(knowledge=exhume.Knowledge(subspace=span))
        >>> exhume.Subspace()(target, num_samples=4).certificate.verdict
        'exact'
    """

    name: ClassVar[str] = "subspace"
    estimates_samples: ClassVar[bool] = True

    source: Literal["auto", "given", "first-layer", "moments"] = "auto"
    dim: int | None = None
    refine: bool = True
    retrace_passes: float = 600.0
    polish: bool = False
    max_starts: int = 8

    def __post_init__(self) -> None:
        if self.max_starts < 1:
            raise InputError(f"max_starts must be at least 1, got {self.max_starts}")
        if self.retrace_passes < 0:
            raise InputError(f"retrace_passes must not be negative, got {self.retrace_passes}")
        if self.dim is not None and self.dim < 2:
            raise InputError(f"dim must be at least 2, got {self.dim}")

    def counts(self, target: Target, num_samples: int) -> tuple[int, int]:
        """As for the last layer, with the dimension of the subspace, as far as it is known beforehand, in d's place."""
        known = target.knowledge
        dim = target.features.input_dim
        if self.source != "moments" and known.subspace is not None:
            dim = min(dim, len(known.subspace))
        elif self.source in ("auto", "first-layer") and target.model is not None:
            dim = min(dim, num_samples + known.known_samples)
        elif self.dim is not None:
            dim = min(dim, self.dim)
        return counted(target, num_samples, dim)

    def run(self, problem: Problem) -> Proposal:
        """Finds the subspace, solves inside it, and lifts what it found."""
        space = self._space(problem)
        if problem.num_samples is None and space.num_samples is not None:
            count = max(1, space.num_samples - problem.target.knowledge.known_samples)
            problem = replace(problem, num_samples=count)
        within = inside(problem, space)
        proposal = self._between_ends(problem, within, space) if self.refine else None
        if proposal is None:
            proposal = Exact(max_starts=self.max_starts).run(within)
            proposal = replace(proposal, judged=within)
        if self.polish and proposal.drift_floor is None:
            proposal = self._polished(problem, proposal, space)
        else:
            proposal = replace(proposal, lift=lambda rows: lift(space, rows))
        evidence = {"subspace": space.source, "subspace_dim": space.dim, "rank": space.num_samples}
        return replace(
            proposal,
            evidence=proposal.evidence | evidence | {"singular_values": list(space.spectrum)},
            notes=(space.sentence, *proposal.notes),
        )

    def _space(self, problem: Problem) -> DataSubspace:
        target, source = problem.target, self.source
        model = target.known_model
        if source == "given" or (source == "auto" and target.knowledge.subspace is not None):
            if target.knowledge.subspace is None:
                raise InputError("no subspace is given; put one into the target's knowledge (--know subspace=FILE)")
            return subspaces.given(target.knowledge.subspace.to(target.features.dtype))
        if source == "first-layer" or (source == "auto" and model is not None):
            if model is None:
                raise InputError("there is no trained first layer: random features do not move; valid: given, moments")
            return subspaces.from_first_layer(model, target.input_shape, problem.generator)
        if not problem.features.is_row_map:
            raise InputError("moments show a subspace of features of the form act(V x) only; give one")
        return _from_moments(problem, self.dim)

    def _between_ends(self, problem: Problem, within: Problem, space: DataSubspace) -> Proposal | None:
        """With features at both ends of training, and retraced; None if the initial weights are not known."""
        initial, count = _initial_features(problem.target), within.num_samples
        if initial is None or count is None:
            return None
        both = BothEnds(reduced(initial, space.basis), within.target.features)
        ends = replace(within, features=within.features.instead(both, 2.0))
        monitor = Monitor(ends, max_starts=self.max_starts)
        outcome, found = self._search(ends, within, monitor, count)
        if outcome is None:
            return found
        retraced = None
        start = _initial_weights(problem, space)
        budget = min(self.retrace_passes, problem.max_passes - problem.features.ledger.passes)
        equations, unknowns = counted(ends.target, count)
        near = equations > unknowns and math.sqrt(ends.span().at(outcome.rows).loss) < _NEAR
        if start is not None and budget > 0 and monitor.ended is None and near:
            retracing = Retracing(ends, within.target.features, start, monitor.count, budget)
            retraced = retracing(outcome.rows)
        return _concluded(ends, outcome, retraced, monitor)

    def _search(
        self, ends: Problem, within: Problem, monitor: Monitor, count: int
    ) -> tuple[Outcome | None, Proposal | None]:
        """Rows that solve the equation with features at both ends.

        One output alone leaves too many bad minima to random rows: there the search of `exact` finds the place first.
        """
        if ends.target.num_outputs > 1:
            return monitor.direct(count, self.max_starts), None
        first = Exact(max_starts=self.max_starts).run(within)
        if not first.stop.trusted or first.samples.shape[0] != count:
            return None, replace(first, judged=within)
        span = ends.span(ends.features.with_dtype(torch.float64), ridge=1e-10)
        radius = None if ends.norms_open else ends.radius
        point = levenberg_marquardt(
            span, first.samples.double(), _BETWEEN, radius=radius, inner=Inner(30, 0.03), watch=monitor.count
        )
        clear = stands_clear(span, point, counted(ends.target, count)[1])
        return Outcome(point.rows, False, False, 1, monitor.steps, floor=clear), None

    def _polished(self, problem: Problem, proposal: Proposal, space: DataSubspace) -> Proposal:
        """Solved once more in all dimensions."""
        count = proposal.samples.shape[0]
        equations, unknowns = counted(problem.target, count)
        if equations <= unknowns:
            raise InputError(
                f"{equations} equations cannot determine {unknowns} unknowns in all dimensions: leave out polish"
            )
        monitor = Monitor(problem, max_starts=1)
        rows = onto_sphere(lift(space, proposal.samples).to(problem.features.dtype), problem.radius)
        by_rows = problem.features.is_row_map and not problem.features.has_offset and problem.target.num_outputs == 1
        span = working_span(problem, count) if by_rows else problem.span(ridge=RIDGE)
        if span.num_linear:
            rows = torch.cat([rows, span.first_linear()])
        radius = None if problem.norms_open and not by_rows else problem.radius
        point = levenberg_marquardt(span, rows, _POLISH, radius=radius, watch=monitor.count)
        found = math.sqrt(point.loss) < FOUND
        floor = not found and stands_clear(span, point, unknowns)
        outcome = Outcome(point.rows, found, False, 1, monitor.steps, floor=floor)
        polished = finish(problem, count, outcome, monitor) if by_rows else finish_directly(problem, outcome, monitor)
        return replace(polished, notes=(*polished.notes, "Polished in all dimensions."))


def _initial_features(target: Target) -> FeatureMap | None:
    """The features before training; None if some weights of the body are not known."""
    model, body = target.known_model, target.feature_map
    if model is None or not {name for name in model.trained if not model.in_head(name)} <= set(model.initial):
        return None
    module = copy.deepcopy(model.module)
    module.load_state_dict({name: model.initial[name] for name in model.trained if name in model.initial}, strict=False)
    has_bias = body.bias if isinstance(body, ModuleFeatureMap) else False
    before = fastest(ModuleFeatureMap(module, model.head, target.input_shape, bias=has_bias))
    return before if target.surviving is None else before.subset(target.surviving)


def _initial_weights(problem: Problem, space: DataSubspace) -> Start | None:
    """Of a two-layer network all of whose weights are known before training; None of anything else."""
    model, body = problem.target.known_model, problem.target.features
    if model is None or not isinstance(body, FirstLayerMap) or body.has_offset:
        return None
    first = [name for name in model.trained if not model.in_head(name)]
    heads = [name for name in model.trained if model.in_head(name)]
    if len(first) != 1 or len(heads) != 1 or not {*first, *heads} <= set(model.initial):
        return None
    before, head = model.initial[first[0]], model.initial[heads[0]]
    if problem.target.surviving is not None:
        before, head = before[problem.target.surviving], head[:, problem.target.surviving]
    scale = math.sqrt(body.input_dim / space.dim)
    columns = space.basis.to(body.device, body.dtype).T
    return Start(before.to(columns) @ columns, head.to(columns), body.activation.name, scale)


def _left_of_drift(ends: Problem, trained: FeatureMap, rows: torch.Tensor) -> tuple[float, ...]:
    """What features at both ends may have missed: the share of the residual that they left, of what they changed."""
    radius = None if ends.norms_open else ends.radius
    rows = rows if radius is None else onto_sphere(rows, radius)
    alone = levenberg_marquardt(ends.span(trained, ridge=RIDGE), rows, _BETWEEN, radius=radius)
    both = ends.span(ends.features.with_dtype(rows.dtype), ridge=RIDGE).at(rows)
    change = torch.linalg.vector_norm(alone.samples - rows, dim=1) / torch.linalg.vector_norm(rows, dim=1)
    return tuple((_CAUTION * math.sqrt(both.loss / max(alone.loss, 1e-300)) * change).tolist())


def _from_moments(problem: Problem, dim: int | None) -> DataSubspace:
    """The strongest directions of the second moment of the weights, and their linear part."""
    features, count = problem.features, dim or problem.num_samples
    if count is None:
        raise InputError("moments do not tell the dimension of the subspace; pass dim (--option dim=R)")
    count = min(count, features.input_dim)
    theta = problem.target.displacement
    linear = features.pull_back(theta)
    values, vectors = moment_spectrum(features, strongest_output(theta, features), count, problem.generator)
    strongest = vectors[:, values.abs().argsort(descending=True)].T
    rows = torch.cat([linear, strongest])[: max(count, len(linear))]
    basis = torch.linalg.qr(rows.T)[0].T[:count].contiguous()
    return DataSubspace(basis, "moments", tuple(values.abs().sort(descending=True).values[: count + 3].tolist()))


def _concluded(ends: Problem, outcome: Outcome, retraced: Retraced | None, monitor: Monitor) -> Proposal:
    """The proposal: samples with norms and labels, and the equation that they solve."""
    target = ends.target
    rows = outcome.rows if retraced is None else retraced.samples
    count = rows.shape[0]
    trained = target.features.with_dtype(rows.dtype)
    labelled = norms_and_labels(rows, target.outputs(trained.forward(rows)), trained.symmetry, target.knowledge)
    settled = outcome.settled
    plain = ends.span(trained).at(labelled.samples)
    extra: dict[str, Any] = {"drift_floor": math.sqrt(plain.loss)}
    notes = [f"Drift: {extra['drift_floor']:.1e} with the trained features alone; solved with those at both ends."]
    if retraced is None:
        extra["drift_errors"] = _left_of_drift(ends, trained, rows)
    else:
        span = ends.span(ends.features.with_dtype(rows.dtype), retraced.displacement)
        point = span.at(rows)
        settled = math.sqrt(point.loss) < FOUND or stands_clear(span, point, counted(target, count)[1])
        extra |= {"displacement": retraced.displacement, "drift_errors": retraced.errors}
        notes.append(
            f"Drift: training retraced {retraced.rounds} times, which leaves a residual of {retraced.residual:.1e}."
        )
    stop = Stop.CONVERGED if outcome.found else Stop.FLOOR if settled else monitor.ended or Stop.STARTS_SPENT
    return Proposal(
        samples=labelled.samples,
        labels=labelled.labels if trained.symmetry.parity != "odd" else None,
        stop=stop,
        steps=monitor.steps,
        signs_determined=trained.symmetry.parity == "none",
        norms_determined=labelled.norms_determined,
        norms_solved=ends.norms_open,
        judged=ends,
        evidence={"starts": outcome.starts},
        history=monitor.history_in_passes(count),
        notes=(*notes, labelled.note),
        **extra,
    )
