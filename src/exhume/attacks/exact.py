"""The exact attack: second-order, certified, with signs, norms and labels, near the information limit p = dn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from exhume import activations
from exhume.attacks._base.attack import Attack
from exhume.attacks._base.problem import Problem, Proposal
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import Search
from exhume.attacks._finish.finish import finish_and_check
from exhume.attacks._search.direct import DirectSearch
from exhume.attacks._search.in_basis import BasisSearch, is_basis_small
from exhume.attacks._search.sample_count import drop_idle_rows, estimate_samples, samples_by_rank
from exhume.attacks._search.schedule import schedule
from exhume.attacks._search.subsets import SubsetSearch
from exhume.attacks._search.unmixing.feature_rows import FeatureSearch, spans_features
from exhume.attacks._search.unmixing.independent_rows import independent_rows
from exhume.errors import InputError, UnknownCount
from exhume.results.stop import Stop


@dataclass(frozen=True)
class Exact(Attack):
    """Gauss-Newton on the span equation: search, signs, norms, labels and a polish to floating-point precision.

    Nothing needs tuning: the choices are made from the target and reported in the result's notes.

    Attributes:
        max_starts: independent starts of the search at most. By default 8; with several outputs and a budget of time or
            passes as many as it allows.

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
    reads_head_only: ClassVar[bool] = True

    max_starts: int | None = None

    def __post_init__(self) -> None:
        if self.max_starts is not None and self.max_starts < 1:
            raise InputError(f"max_starts must be at least 1, got {self.max_starts}")

    def run(self, problem: Problem, session: Session) -> Proposal:
        """Counts the samples, chooses coordinates and searches, and finishes what was found.

        The direct search serves several outputs, known samples, and features of any kind; the others need features
        act(V x). They read a few of the coordinates first, then more.
        """
        if problem.target.features.input_dim < 2:
            raise InputError("a sample of one number has no direction to recover; valid: at least 2 inputs")
        count, rank = _count(problem)
        max_starts = self._starts(problem, session)
        if count is not None and _starts_directly(problem):
            goes_on = _has_another_search(problem, count)
            few = goes_on and not _is_informed(problem)
            starts = min(max_starts, problem.tuning.direct.starts_before_basis) if few else max_starts
            rows = _unmixed_rows(problem, count, session) if spans_features(problem, count) else None
            found = session.run_stage(DirectSearch(problem, count, starts, rows))
            if found.stop.trusted or not goes_on or session.budget_spent():
                found = replace(found, evidence={} if rank is None else {"rank": rank})
                return finish_and_check(problem, found, session, max_starts)
        if problem.num_samples is None:
            return finish_and_check(problem, estimate_samples(problem, session), session, max_starts)
        in_basis, tuning = is_basis_small(problem, problem.num_samples), problem.tuning.schedule
        for part in schedule(problem, tuning.in_basis if in_basis else tuning.by_subsets):
            # No variable holds the search: what it keeps of V is freed before the next one reads more.
            found = session.run_stage(_search_on(part, problem.num_samples, in_basis, max_starts, last=part is problem))
            if found.stop is Stop.CONVERGED or session.budget_spent():
                break
        if in_basis and found.stop is not Stop.CONVERGED and not session.budget_spent():
            search = SubsetSearch(problem, found.num_samples, max_starts=max_starts, rows=found.rows)
            found = session.run_stage(search)
        if found.stop is Stop.CONVERGED:
            found = drop_idle_rows(found, session)
        return finish_and_check(problem, found, session, max_starts)

    def _starts(self, problem: Problem, session: Session) -> int:
        """How many starts the searches may make."""
        if self.max_starts is not None:
            return self.max_starts
        several = problem.target.num_outputs > 1 and session.has_budget
        return problem.tuning.direct.starts_within_budget if several else problem.tuning.direct.starts


def _search_on(part: Problem, count: int, in_basis: bool, max_starts: int, *, last: bool) -> Search[Any]:
    """The search that reads these coordinates; the last one reads all of them."""
    if in_basis:
        return BasisSearch(part, count)
    starts = max_starts if last else min(max_starts, part.tuning.subsets.starts_on_part)
    return SubsetSearch(part, count, max_starts=starts)


def _unmixed_rows(problem: Problem, count: int, session: Session) -> torch.Tensor | None:
    """Rows from the features that the head's rows span: by their zeros, or as independent components."""
    if problem.one_layer.activation == activations.get("relu"):
        return session.run_stage(FeatureSearch(problem, count)).rows
    enough = problem.tuning.independent.least_coordinates * count
    return independent_rows(problem, count) if problem.features.num_features >= enough else None


def _is_informed(problem: Problem) -> bool:
    """Whether some samples are known, and how many others there are."""
    return problem.target.knowledge.known_samples > 0 and problem.num_samples is not None


def _starts_directly(problem: Problem) -> bool:
    """Whether the direct search comes first."""
    return not problem.is_one_layer_without_bias or problem.target.num_outputs > 1 or _is_informed(problem)


def _count(problem: Problem) -> tuple[int | None, int | None]:
    """How many samples to look for, and the rank of the weights if that decided; None leaves it to be estimated."""
    if problem.num_samples is not None:
        return problem.num_samples, None
    known = problem.target.knowledge.known_samples
    rank = samples_by_rank(problem.target, problem.tuning.count) if _starts_directly(problem) else None
    if rank is not None:
        if rank <= known:
            raise InputError(f"the weights show {rank} samples, and as many are known; nothing is left to look for")
        return rank - known, rank
    if not problem.is_one_layer_without_bias:
        raise UnknownCount(
            f"the number of samples does not show in a head of {problem.target.num_outputs} outputs; "
            "pass num_samples (--num-samples)"
        )
    return None, None


def _has_another_search(problem: Problem, count: int) -> bool:
    """Whether a search by subsets can follow the direct one with one output, or one in a basis with several.

    Half of the coordinates must determine more than a linear part and coefficients.
    """
    known, features = problem.target.knowledge.known_samples, problem.features
    enough = features.num_features >= 4 * (count + known + features.input_dim)
    if not (problem.is_one_layer_without_bias and enough):
        return False
    return problem.target.num_outputs == 1 or is_basis_small(problem, count)
