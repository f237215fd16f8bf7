"""The monitor of the exact attack: progress, history, checkpoints, and the budgets that end a search."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from exhume.attacks.base import Problem, ProgressEvent, counted
from exhume.attacks.basis_search import STEPS as BASIS_STEPS
from exhume.attacks.basis_search import BasisSearch, BasisState
from exhume.attacks.direct import STEPS_PER_START as DIRECT_STEPS
from exhume.attacks.direct import DirectSearch, DirectState
from exhume.attacks.search import STEPS_PER_START, Outcome, Search
from exhume.attacks.search_state import SearchState
from exhume.attacks.working import HERMITE_ZERO, RIDGE, working_span
from exhume.features import RowFeatureMap
from exhume.reconstruction import Stop
from exhume.span import Point, Span

State = TypeVar("State", SearchState, DirectState, BasisState)
AnyState = SearchState | DirectState | BasisState


class Monitor:
    """Watches a search: progress, history, checkpoints, and the budgets that end it."""

    def __init__(self, problem: Problem, *, max_starts: int) -> None:
        self.problem, self._max_starts = problem, max_starts
        self.history: dict[str, list[float]] = {"step": [], "loss": [], "work": []}
        self.ended: Stop | None = None
        self.steps = 0
        self._searches = 0

    def span_for(self, count: int) -> Span:
        """The equation to search in for so many samples."""
        return working_span(self.problem, count)

    def search(
        self,
        span: Span,
        count: int,
        *,
        max_starts: int | None = None,
        steps_per_start: int = STEPS_PER_START,
        rows: torch.Tensor | None = None,
    ) -> Outcome:
        """Runs a search for `count` samples, at first from `rows`, or resumes it if the checkpoint is of this one."""
        self._searches += 1
        self.problem.features.ledger.unit_rows = count
        unknowns = counted(self.problem.target, count)[1]
        search = Search(
            span,
            count,
            floor_unknowns=unknowns if self.problem.target.trained_head is not None else None,
            spectral=_has_second_moment(span),
            radius=self.problem.radius,
            free_norms=self.problem.norms_open,
            max_starts=max_starts or self._max_starts,
            steps_per_start=steps_per_start,
            keep_going=self._keep_going,
            within_budget=self.within_budget,
        )
        state = self._resumed(SearchState)
        if state is None:
            generator = self.problem.generator
            state = search.begin(generator) if rows is None else SearchState(rows, generator)
        return search.run(state)

    def in_basis(self, span: Span, count: int) -> Outcome | None:
        """Runs a search in a growing basis, or resumes it; None if the run that is resumed has that behind it."""
        self._searches += 1
        saved = self.problem.checkpoint.load()
        if saved is not None and saved[1]["search"] > self._searches:
            return None
        self.problem.features.ledger.unit_rows = count
        search = BasisSearch(
            span,
            count,
            radius=self.problem.radius,
            keep_going=self._keep_going,
        )
        return search.run(self._resumed(BasisState) or search.begin(self.problem.generator))

    def direct(self, count: int, max_starts: int) -> Outcome:
        """Runs a direct search for `count` samples, or resumes it if the checkpoint is of this one."""
        self._searches += 1
        self.problem.features.ledger.unit_rows = count
        search = DirectSearch(
            self.problem.span(ridge=RIDGE),
            count,
            unknowns=counted(self.problem.target, count)[1],
            radius=self.problem.radius,
            free_norms=self.problem.norms_open,
            drifted=self.problem.target.trained_head is not None,
            max_starts=max_starts,
            keep_going=self._keep_going,
            count_step=self.count_within_budget,
        )
        return search.run(self._resumed(DirectState) or search.begin(self.problem.generator))

    def count(self, point: Point) -> bool:
        """Counts a step made after the search, and goes on whatever the budget: finishing comes on top of it."""
        self.steps += 1
        self.note(point.loss)
        problem = self.problem
        problem.progress(ProgressEvent(self.steps, self.steps, point.loss, problem.features.ledger.passes))
        return True

    def count_within_budget(self, point: Point) -> bool:
        """Counts a step of a search that no checkpoint holds; False if the budget is spent."""
        return self.count(point) and self.within_budget()

    def note(self, loss: float) -> None:
        """Adds a point to the history."""
        work = self.problem.features.ledger.work
        for name, value in (("step", self.steps), ("loss", loss), ("work", work)):
            self.history[name].append(float(value))

    def history_in_passes(self, count: int) -> dict[str, list[float]]:
        """The history with its work in passes over `count` samples."""
        unit = count * self.problem.features.ledger.num_features
        passes = [work / unit for work in self.history["work"]]
        return {"step": self.history["step"], "loss": self.history["loss"], "passes": passes}

    def _keep_going(self, state: AnyState) -> bool:
        problem, loss = self.problem, state.residual**2
        self.note(loss)
        each = {DirectState: DIRECT_STEPS, BasisState: BASIS_STEPS}.get(type(state), STEPS_PER_START)
        starts = 1 if isinstance(state, BasisState) else self._max_starts
        total, done = starts * each, (state.start - 1) * each + state.step
        problem.progress(ProgressEvent(done, total, loss, problem.features.ledger.passes))
        problem.checkpoint.save_if_due(lambda: self._saved(state))
        self.steps += 1
        return self.within_budget()

    def within_budget(self) -> bool:
        """Whether passes and time are left; notes which of them ran out."""
        self.ended = self.ended or self.problem.spent()
        return self.ended is None

    def _saved(self, state: AnyState) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        tensors, numbers = state.save()
        ledger = self.problem.features.ledger
        numbers |= {"search": self._searches, "steps": self.steps, "work": ledger.work}
        return tensors, numbers | {"history": self.history}

    def _resumed(self, kind: type[State]) -> State | None:
        saved = self.problem.checkpoint.load()
        if saved is None or saved[1]["search"] != self._searches:
            return None  # an earlier search of the same run is made again, and comes out the same
        tensors, numbers = saved
        self.steps = int(numbers["steps"])
        self.problem.features.ledger.work = int(numbers["work"])
        self.history = {name: column[:-1] for name, column in numbers["history"].items()}
        state = kind.load(tensors, numbers, self.problem.features.device)
        self.problem.generator.set_state(state.generator.get_state())
        state.generator = self.problem.generator
        return state


def _has_second_moment(span: Span) -> bool:
    """Whether second moments know the samples: not for odd activations."""
    assert isinstance(span.features, RowFeatureMap)
    return abs(float(span.features.activation.hermite(2)[2])) > HERMITE_ZERO
