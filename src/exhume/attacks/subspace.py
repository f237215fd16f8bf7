"""The subspace attack: reconstruction inside a subspace that holds the data, with the wall at p = rn, not p = dn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from exhume.attacks._base.problem import EquationCount, Problem, Proposal, equation_count
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import SearchResult
from exhume.attacks._finish.both_ends import correct_drift, initial_weights, solve_with_both_ends, with_both_ends
from exhume.attacks._finish.finish import finish
from exhume.attacks._finish.unmixed import unmixed_samples
from exhume.attacks._search.direct import DirectSearch
from exhume.attacks._search.noise_floor import is_noise_floor
from exhume.attacks._search.working_equation import working_equation
from exhume.attacks.exact import Exact
from exhume.errors import InputError
from exhume.results.stop import Stop
from exhume.solvers import levenberg_marquardt
from exhume.target import data_subspace as subspaces
from exhume.target.data_subspace import DataSubspace
from exhume.target.target import Target


@dataclass(frozen=True)
class Subspace(Exact):
    """Finds a subspace that holds the data and runs the exact attack inside it.

    Attributes:
        source: "auto" takes a given subspace (`Knowledge.subspace`), else that of the first layer's displacement; or
            one of "given", "first-layer".
        refine: where a network's initial weights are known, use features at both ends of training, and retrace it if it
            has two layers.
        retrace_passes: budget of the retracing, in feature passes; 0 leaves it out.
        polish: solve the equation once more in all dimensions, from what was found in the subspace. Not where features
            drifted: there it costs more than it gains.
        max_starts: independent starts of the search at most.

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
    can_be_sharded: ClassVar[bool] = False
    reads_head_only: ClassVar[bool] = False

    source: Literal["auto", "given", "first-layer"] = "auto"
    refine: bool = True
    retrace_passes: float = 600.0
    polish: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.retrace_passes < 0:
            raise InputError(f"retrace_passes must not be negative, got {self.retrace_passes}")

    def equation_count(self, target: Target, num_samples: int) -> EquationCount:
        """As for the last layer, with the dimension of the subspace, as far as it is known beforehand, in d's place."""
        known, dim = target.knowledge, target.features.input_dim
        if known.subspace is not None and self.source != "first-layer":
            dim = min(dim, len(known.subspace))
        elif target.model is not None:
            dim = min(dim, num_samples + known.known_samples)
        return equation_count(target, num_samples, dim)

    def run(self, problem: Problem, session: Session) -> Proposal:
        """Finds the subspace and solves the equation inside it."""
        space = self._space(problem, session.generator)
        if problem.num_samples is None and space.num_samples is not None:
            count = max(1, space.num_samples - problem.target.knowledge.known_samples)
            problem = replace(problem, num_samples=count)
        within = problem.inside(space)
        ends = with_both_ends(problem, within, space) if self.refine else None
        if ends is not None:
            proposal = self._solve_with_both_ends(problem, within, ends, space, session)
        else:
            proposal = super().run(within, session)
        if self.polish and proposal.drift is None:
            proposal = _polished(problem, space.lift(proposal.samples), session)
        else:
            proposal = replace(proposal, to_input_space=space)
        evidence = {
            "subspace": space.source,
            "subspace_dim": space.dim,
            "rank": space.num_samples,
            "singular_values": list(space.spectrum),
        }
        notes = {"subspace": space.sentence} | proposal.notes
        return replace(proposal, evidence=proposal.evidence | evidence, notes=notes)

    def _solve_with_both_ends(
        self, problem: Problem, within: Problem, ends: Problem, space: DataSubspace, session: Session
    ) -> Proposal:
        """With features at both ends of training.

        A single output leaves too many spurious minima to random rows: there the search of `exact`, with the trained
        features, finds samples to start from.
        """
        assert ends.num_samples is not None
        if ends.target.num_outputs > 1:
            rows = _unmixed_rows(problem, space, ends.num_samples, session)
            found = session.run_stage(DirectSearch(ends, ends.num_samples, self._starts(ends, session), rows))
        else:
            first = super().run(within, session)
            if not first.stop.trusted or len(first.samples) != ends.num_samples:
                return first
            found = solve_with_both_ends(ends, first.samples, session)
        found, drift = correct_drift(found, initial_weights(problem, space), session, self.retrace_passes)
        return finish(found, session, drift)

    def _space(self, problem: Problem, generator: torch.Generator) -> DataSubspace:
        target, known = problem.target, problem.target.knowledge.subspace
        model = target.known_model
        if self.source == "given" or (self.source == "auto" and known is not None):
            if known is None:
                raise InputError("no subspace is given; put one into the target's knowledge (--know subspace=FILE)")
            return subspaces.given(known.to(target.features.dtype))
        if model is None:
            raise InputError(
                "there is no trained first layer to show a subspace, and none is given; put one into the target's "
                "knowledge (--know subspace=FILE)"
            )
        return subspaces.from_first_layer(model, target.input_shape, generator)


def _unmixed_rows(problem: Problem, space: DataSubspace, count: int, session: Session) -> torch.Tensor | None:
    """Rows to start from (n, r): estimates from the zeros of a ReLU layer's displacement; None if it shows none."""
    samples = unmixed_samples(problem, session, count, problem.tuning.unmix.starts_of_others)
    return None if samples is None else space.lower(samples.to(problem.features.dtype))


def _polished(problem: Problem, samples: torch.Tensor, session: Session) -> Proposal:
    """Samples solved once more in all dimensions."""
    count, counted = len(samples), problem.equation_count(len(samples))
    if not counted.determined:
        raise InputError(
            f"{counted.equations} equations cannot determine {counted.unknowns} unknowns in all dimensions: leave out "
            "polish"
        )
    rows = problem.sphere.retract(samples.to(problem.features.dtype))
    working = problem.is_one_layer_without_bias and problem.target.num_outputs == 1
    equation = working_equation(problem, count) if working else problem.equation(ridge=problem.tuning.equation.ridge)
    if equation.num_linear:
        rows = torch.cat([rows, equation.first_linear()])
    norms = problem.sphere if working else problem.norms
    point = levenberg_marquardt(equation, rows, norms, problem.tuning.retrace.polish, should_stop=session.record).point
    stop = session.budget_spent() or Stop.STARTS_SPENT
    if problem.is_found(point):
        stop = Stop.CONVERGED
    elif is_noise_floor(equation, point, counted, problem.tuning.noise_floor):
        stop = Stop.FLOOR
    polished = finish(SearchResult(point.rows, count, stop, problem, 1, session.steps, working), session)
    return replace(polished, notes=polished.notes | {"polish": "Polished in all dimensions."})
