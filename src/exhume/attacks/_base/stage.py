"""A stage of an attack: one search in steps, whose state a checkpoint can hold, and what it found."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import torch

from exhume.attacks._base.problem import Problem
from exhume.results.stop import Stop

if TYPE_CHECKING:
    from exhume.attacks._base.session import Session

State = TypeVar("State")

# For fields of a state that are computed again from the others when a run is resumed.
NOT_SAVED = {"saved": False}
# The history of a long descent has a point whenever the number of steps has grown by this factor.
_GROWTH = 1.02


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    A resumed run replays finished stages with the fields of this class except `evidence`, which is added after the
    stages; an attack whose search returns a subclass has a single stage.

    Attributes:
        rows: the best unknowns (n, d), and below them the linear part if it is solved for jointly.
        num_samples: n.
        stop: why the search ended. CONVERGED: the residual vanished. FLOOR, REPRODUCED: it did not, but the samples
            are trusted. Anything else: the samples are not.
        problem: what the rows solve, on the coordinates that were read.
        starts, steps: starts made, and steps of the last one.
        working: whether rows solve the working equation (see `working_equation`) rather than the model's own.
        evidence: numbers behind the choices that were made.
    """

    rows: torch.Tensor
    num_samples: int
    stop: Stop
    problem: Problem
    starts: int
    steps: int
    working: bool = False
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StageKey:
    """What a stage is; a checkpoint is resumed only by the same stages."""

    kind: str
    samples: int
    coordinates: int

    def __str__(self) -> str:
        return f"{self.kind} for {self.samples} samples on {self.coordinates} coordinates"


@dataclass(frozen=True)
class Where:
    """Where a search stands in its current state, for progress and history."""

    step: int
    total: int
    loss: float
    recorded: bool = True


def samples_of(state: object) -> torch.Tensor | None:
    """The samples that a search's state holds now, for those who watch; None if it holds none under these names."""
    values = getattr(state, "values", None)
    named = values if isinstance(values, dict) else vars(state) if hasattr(state, "__dict__") else {}
    found = named.get("samples", named.get("rows"))
    return found.detach() if isinstance(found, torch.Tensor) and found.ndim == 2 else None


def is_recorded(step: int) -> bool:
    """Whether a step of a long descent belongs in the history: steps 0 and 1, then a geometric sequence."""
    if step < 2:
        return True
    return int(math.log(step) / math.log(_GROWTH)) != int(math.log(step - 1) / math.log(_GROWTH))


class Search(ABC, Generic[State]):
    """A search in steps; all that the next step depends on is in its frozen state.

    Attributes:
        problem: what is solved.
        count: how many samples.
        state_type: the dataclass of its states.
    """

    state_type: ClassVar[type[Any]]
    problem: Problem
    count: int

    @property
    def key(self) -> StageKey:
        """What a checkpoint compares."""
        return StageKey(type(self).__name__, self.count, self.problem.features.num_features)

    @abstractmethod
    def begin(self, generator: torch.Generator) -> State:
        """The first state."""

    def restore(self, state: State) -> State:
        """A state read from a checkpoint, with the fields that are not saved."""
        return state

    @abstractmethod
    def where(self, state: State) -> Where:
        """Where the search stands."""

    def finished(self, state: State) -> Stop | None:
        """Why the search ends at this state; None to go on."""
        return None

    @abstractmethod
    def advance(self, state: State, session: Session) -> State | SearchResult:
        """The next state, or the result."""

    @abstractmethod
    def give_up(self, state: State, stop: Stop, session: Session) -> SearchResult:
        """The result if the search ends at this state."""
