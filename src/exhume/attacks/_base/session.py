"""A running attack: its budget, progress, history, random generator, and stages that a checkpoint resumes.

A stage is one search. A search computes with frozen states; the session advances it, saves its state now and then, and
keeps the results of the stages before it. A resumed run replays those and goes on from the saved state.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from exhume.attacks._base.progress import Progress, ProgressEvent
from exhume.attacks._base.stage import Search, SearchResult, StageKey, samples_of
from exhume.equation.span import SpanPoint
from exhume.errors import FileError
from exhume.features import FeatureMap, PassCounter
from exhume.results.stop import Stop
from exhume.support import serialise
from exhume.support.checkpoint import Checkpoint

State = TypeVar("State")

BUDGET_STOPS = (Stop.PASS_LIMIT, Stop.TIME_LIMIT)
_START_ANEW = "leave out --resume to start anew"
_STATE, _SESSION = "state", "session"  # parts of a checkpoint


@dataclass(frozen=True)
class Budget:
    """When to end a search: feature passes, and a time on the monotonic clock."""

    max_passes: float = math.inf
    ends_at: float = math.inf


@dataclass(frozen=True)
class _FinishedStage:
    key: StageKey
    rows: torch.Tensor
    stop: Stop
    starts: int
    steps: int
    working: bool
    generator: torch.Tensor  # its state after the stage


@dataclass(frozen=True)
class _Saved:
    """A session as a checkpoint keeps it, beside the state of the stage that runs."""

    key: StageKey
    finished: tuple[_FinishedStage, ...]
    generator: torch.Tensor
    steps: int
    work: int
    history: dict[str, list[float]]


class Session:
    """One run of an attack.

    Args:
        features: whose counter is the cost.
        generator: of the attack's own randomness.
        checkpoint: where states are saved.
        budget: ends searches.
        progress: called now and then.

    Attributes:
        generator: of the attack's own randomness.
        steps: made so far.
    """

    def __init__(
        self,
        features: FeatureMap,
        generator: torch.Generator,
        checkpoint: Checkpoint | None = None,
        budget: Budget | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.generator, self.steps = generator, 0
        self._counter, self._coordinates, self._device = features.counter, features.coordinates, features.device
        self._sizes = features.num_features, features.input_dim
        self._checkpoint, self._budget = checkpoint or Checkpoint(), budget or Budget()
        self._progress = progress or (lambda event: None)
        self._history: dict[str, list[float]] = {"step": [], "loss": [], "work": []}
        self._unit = 1  # samples of the current stage: a pass is one application of the features to all of them
        self._spent: Stop | None = None
        self._begun = 0
        self._began_at = time.monotonic()
        self._finished: list[_FinishedStage] = []
        self._resumed: tuple[_Saved, dict[str, torch.Tensor], Any] | None = None

    def passes(self, num_samples: int | None = None) -> float:
        """Feature passes so far, in applications to so many samples; by default those of the current stage."""
        return self._counter.passes(num_samples or self._unit, *self._sizes)

    @property
    def has_budget(self) -> bool:
        """Whether time or passes are limited."""
        return math.isfinite(self._budget.max_passes) or math.isfinite(self._budget.ends_at)

    def passes_left(self) -> float:
        """Passes until the budget is spent."""
        return self._budget.max_passes - self.passes()

    def share_spent(self) -> float:
        """Of the budget, of passes or of time; 0 without one."""
        now, budget = time.monotonic(), self._budget
        of_time = (now - self._began_at) / max(budget.ends_at - self._began_at, 1e-9)
        return max(self.passes() / budget.max_passes, of_time)

    def history(self, num_samples: int) -> dict[str, list[float]]:
        """Steps, losses and passes so far, as columns."""
        passes = [PassCounter(int(work)).passes(num_samples, *self._sizes) for work in self._history["work"]]
        return {"step": self._history["step"], "loss": self._history["loss"], "passes": passes}

    def budget_spent(self) -> Stop | None:
        """Which budget is spent, of passes or of time; None while there is some of both. Once spent, it stays so."""
        if self._spent is None:
            if self.passes() >= self._budget.max_passes:
                self._spent = Stop.PASS_LIMIT
            elif math.isfinite(self._budget.ends_at):
                late = self._coordinates.broadcast_decision(time.monotonic() >= self._budget.ends_at)
                self._spent = Stop.TIME_LIMIT if late else None
        return self._spent

    def is_over_budget(self, point: SpanPoint) -> bool:
        """For `levenberg_marquardt`: ends a run when the budget is spent."""
        return self.budget_spent() is not None

    def record(self, point: SpanPoint) -> bool:
        """For `levenberg_marquardt`: records a step, and never ends the run: finishing comes on top of the budget."""
        self._note(point.loss)
        self.steps += 1
        self._show(self.steps, self.steps, point.loss, point.rows)
        return False

    def record_within_budget(self, point: SpanPoint) -> bool:
        """For `levenberg_marquardt`: records a step, and ends the run when the budget is spent."""
        return self.record(point) or self.is_over_budget(point)

    def run_stage(self, search: Search[State], share: float = 1.0) -> SearchResult:
        """Runs the search, resumes it, or replays it if it finished before the checkpoint.

        It also ends when this share of the budget is spent, and other stages follow.
        """
        if self._begun == 0:
            self._read_checkpoint()
        self._begun, self._unit = self._begun + 1, search.count
        if self._begun <= len(self._finished):
            return self._replay(search)
        state = self._resume(search) if self._resumed else search.begin(self.generator)
        while True:
            self._save_if_due(search, state)
            where = search.where(state)
            if where.recorded:
                self._note(where.loss)
                self._show(where.step, where.total, where.loss, samples_of(state))
            stop = search.finished(state) or self.budget_spent()
            if stop is None and share < 1 and self._coordinates.broadcast_decision(self.share_spent() >= share):
                stop = Stop.STARTS_SPENT
            if stop is not None:
                self._show(where.step, where.step, where.loss)
                result = search.give_up(state, stop, self)
                break
            self.steps += 1
            outcome = search.advance(state, self)
            if isinstance(outcome, SearchResult):
                result = outcome
                break
            state = outcome
        if result.stop not in BUDGET_STOPS:
            self._keep(search, result)
        return result

    def _show(self, step: int, total: int, loss: float, samples: torch.Tensor | None = None) -> None:
        left = self.passes_left(), self._budget.ends_at - time.monotonic()
        self._progress(ProgressEvent(step, total, loss, self.passes(), samples, *left))

    def _note(self, loss: float) -> None:
        for name, value in (("step", self.steps), ("loss", loss), ("work", self._counter.work)):
            self._history[name].append(float(value))

    def _keep(self, search: Search[Any], result: SearchResult) -> None:
        generator = self.generator.get_state()
        numbers = (result.stop, result.starts, result.steps, result.working)
        self._finished.append(_FinishedStage(search.key, result.rows, *numbers, generator))

    def _save_if_due(self, search: Search[State], state: State) -> None:
        # If the budget has ended an earlier stage, that one is to be resumed: the checkpoint stays as it is.
        if not self._checkpoint.due or len(self._finished) < self._begun - 1:
            return
        saved = _Saved(
            key=search.key,
            finished=tuple(self._finished),
            generator=self.generator.get_state(),
            steps=self.steps,
            work=self._counter.work,
            history=self._history,
        )
        parts = {_STATE: serialise.dump(state), _SESSION: serialise.dump(saved)}
        tensors = {f"{part}.{name}": each for part, (named, _) in parts.items() for name, each in named.items()}
        self._checkpoint.save(tensors, {part: value for part, (_, value) in parts.items()})

    def _read_checkpoint(self) -> None:
        loaded = self._checkpoint.load()
        if loaded is None:
            return
        tensors, numbers = loaded
        saved = serialise.load(_Saved, _part(tensors, _SESSION), numbers[_SESSION])
        self._resumed = (saved, _part(tensors, _STATE), numbers[_STATE])
        self._finished = list(saved.finished)

    def _replay(self, search: Search[Any]) -> SearchResult:
        stage = self._finished[self._begun - 1]
        self._check(search.key, stage.key)
        self.generator.set_state(stage.generator)
        rows = stage.rows.to(self._device)
        return SearchResult(rows, search.count, stage.stop, search.problem, stage.starts, stage.steps, stage.working)

    def _resume(self, search: Search[State]) -> State:
        """The saved state; the saved count replaces that of the products which rebuild it."""
        assert self._resumed is not None
        (saved, tensors, value), self._resumed = self._resumed, None
        self._check(search.key, saved.key)
        state: State = search.restore(serialise.load(search.state_type, tensors, value, device=self._device))
        self.generator.set_state(saved.generator)
        self.steps, self._counter.work, self._history = saved.steps, saved.work, saved.history
        return state

    def _check(self, here: StageKey, saved: StageKey) -> None:
        """Refuses a checkpoint whose stages differ: on another machine rounding can change which search runs next."""
        if here != saved:
            raise FileError(
                f"{self._checkpoint.path}: stage {self._begun} is {saved} there, but {here} in this run; {_START_ANEW}"
            )


def _part(tensors: dict[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    return {key.removeprefix(f"{name}."): tensor for key, tensor in tensors.items() if key.startswith(f"{name}.")}
