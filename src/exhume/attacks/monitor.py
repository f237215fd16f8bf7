"""The monitor of the exact attack: progress, history, checkpoints, and the budgets that end a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
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
from exhume.errors import FileError
from exhume.features import RowFeatureMap
from exhume.reconstruction import Stop
from exhume.span import Point, Span

State = TypeVar("State", SearchState, DirectState, BasisState)
AnyState = SearchState | DirectState | BasisState
_Saved = tuple[dict[str, torch.Tensor], dict[str, Any]]
_Which = tuple[str, int, int]  # of a run's searches: its kind of state, its samples and its coordinates
_ANEW = "leave out --resume to start anew"


class Monitor:
    """Watches a search: progress, history, checkpoints, and the budgets that end it."""

    def __init__(self, problem: Problem, *, max_starts: int) -> None:
        self.problem, self._max_starts = problem, max_starts
        self.history: dict[str, list[float]] = {"step": [], "loss": [], "work": []}
        self.ended: Stop | None = None
        self.steps = 0
        self._begun: list[_Which] = []
        self._over: list[_Over] = []
        self._resumed_from: _Saved | None = None

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
        """Runs a search for `count` samples, at first from `rows`, or resumes it."""

        def run(state: SearchState | None) -> Outcome:
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
            if state is None:
                generator = self.problem.generator
                state = search.begin(generator) if rows is None else SearchState(rows, generator)
            return search.run(state)

        return self._once(SearchState, span, count, run)

    def in_basis(self, span: Span, count: int) -> Outcome:
        """Runs a search for `count` samples in a growing basis, or resumes it."""

        def run(state: BasisState | None) -> Outcome:
            search = BasisSearch(span, count, radius=self.problem.radius, keep_going=self._keep_going)
            return search.run(state or search.begin(self.problem.generator))

        return self._once(BasisState, span, count, run)

    def direct(self, count: int, max_starts: int) -> Outcome:
        """Runs a direct search for `count` samples, or resumes it."""
        span = self.problem.span(ridge=RIDGE)

        def run(state: DirectState | None) -> Outcome:
            search = DirectSearch(
                span,
                count,
                unknowns=counted(self.problem.target, count)[1],
                radius=self.problem.radius,
                free_norms=self.problem.norms_open,
                drifted=self.problem.target.trained_head is not None,
                max_starts=max_starts,
                keep_going=self._keep_going,
                count_step=self.count_within_budget,
            )
            return search.run(state or search.begin(self.problem.generator))

        return self._once(DirectState, span, count, run)

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
        if len(self._over) == len(self._begun) - 1:  # else the budget has cut an earlier one, which is to be resumed
            problem.checkpoint.save_if_due(lambda: self._saved(state))
        self.steps += 1
        return self.within_budget()

    def within_budget(self) -> bool:
        """Whether passes and time are left; notes which of them ran out."""
        self.ended = self.ended or self.problem.spent()
        return self.ended is None

    def _once(self, kind: type[State], span: Span, count: int, run: Callable[[State | None], Outcome]) -> Outcome:
        """The outcome of a search: run, resumed, or as it was if the run that is resumed has it behind it."""
        if not self._begun:
            self._read()
        self._begun.append((kind.__name__, count, span.features.num_features))
        self.problem.features.ledger.unit_rows = count
        generator, number = self.problem.generator, len(self._begun)
        if number <= len(self._over):
            over = self._over[number - 1]
            self._check(over.which)
            generator.set_state(over.generator)
            return over.outcome
        outcome = run(self._resumed(kind))
        if outcome.found or self.ended is None:
            self._over.append(_Over(self._begun[-1], outcome, generator.get_state()))
        return outcome

    def _saved(self, state: AnyState) -> _Saved:
        tensors, numbers = state.save()
        for index, over in enumerate(self._over):
            # Copies, since a search may begin at the rows of another, and safetensors shares nothing.
            tensors |= {f"over.{index}.rows": over.outcome.rows.clone(), f"over.{index}.generator": over.generator}
        ledger = self.problem.features.ledger
        numbers |= {"which": self._begun[-1], "over": [over.numbers() for over in self._over]}
        return tensors, numbers | {"steps": self.steps, "work": ledger.work, "history": self.history}

    def _read(self) -> None:
        """Reads the checkpoint, once: what this run saves is not what it resumes."""
        saved = self.problem.checkpoint.load()
        if saved is None:
            return
        tensors, numbers = saved
        if not {"which", "over"} <= numbers.keys():
            raise FileError(f"{self.problem.checkpoint.path} does not say which search it is of; {_ANEW}")
        for index, told in enumerate(numbers["over"]):
            rows, generator = tensors[f"over.{index}.rows"], tensors[f"over.{index}.generator"]
            outcome = Outcome(rows.to(self.problem.features.device), **told["outcome"])
            self._over.append(_Over(tuple(told["which"]), outcome, generator))
        self._resumed_from = saved

    def _resumed(self, kind: type[State]) -> State | None:
        """The state to go on from, if the checkpoint holds one: it is of the first search that is not over."""
        if self._resumed_from is None:
            return None
        (tensors, numbers), self._resumed_from = self._resumed_from, None
        self._check(tuple(numbers["which"]))
        self.steps = int(numbers["steps"])
        self.problem.features.ledger.work = int(numbers["work"])
        self.history = {name: column[:-1] for name, column in numbers["history"].items()}
        state = kind.load(tensors, numbers, self.problem.features.device)
        self.problem.generator.set_state(state.generator.get_state())
        state.generator = self.problem.generator
        return state

    def _check(self, saved: _Which) -> None:
        """Refuses a checkpoint of other searches: between them rounding may decide, and elsewhere decide otherwise."""
        here = self._begun[-1]
        if saved != here:
            raise FileError(
                f"{self.problem.checkpoint.path}: search {len(self._begun)} is {_told(saved)} there, but {_told(here)} "
                f"in this run; {_ANEW}"
            )


@dataclass(frozen=True)
class _Over:
    """A search that is over, as a checkpoint keeps it: which one, how it ended, and the generator after it."""

    which: _Which
    outcome: Outcome
    generator: torch.Tensor

    def numbers(self) -> dict[str, Any]:
        """All but the tensors."""
        ended = {item.name: getattr(self.outcome, item.name) for item in fields(Outcome) if item.name != "rows"}
        return {"which": self.which, "outcome": ended}


def _told(which: _Which) -> str:
    kind, count, coordinates = which
    return f"of {kind} for {count} samples on {coordinates} coordinates"


def _has_second_moment(span: Span) -> bool:
    """Whether second moments know the samples: not for odd activations."""
    assert isinstance(span.features, RowFeatureMap)
    return abs(float(span.features.activation.hermite(2)[2])) > HERMITE_ZERO
