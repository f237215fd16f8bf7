"""What a store says: a record for each cell, and the counts of a sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from exhume.sweep.cell import Cell
from exhume.sweep.outcome import Outcome

State = Literal["waiting", "done", "failed"]


@dataclass(frozen=True)
class Record:
    """One cell and what became of it.

    Attributes:
        cell: its configuration.
        state: waiting, done or failed.
        outcome: the numbers of a done cell.
        error: why a failed cell failed.
        seconds: that its experiment took.
        worker: where it ran.
        versions: of exhume, Python and torch there.
        finished_at: when the client heard of it, in UTC.
    """

    cell: Cell
    state: State
    outcome: Outcome | None
    error: str | None
    seconds: float | None
    worker: str | None
    versions: dict[str, str]
    finished_at: datetime | None
    load_pictures: Callable[[], bytes | None]

    @property
    def pictures(self) -> bytes | None:
        """The pictures as `Finished` has them, read from the store when they are asked for."""
        return self.load_pictures()


@dataclass(frozen=True)
class Counts:
    """How far a sweep is.

    Attributes:
        total: its cells; each is done, failed or waiting.
        started: how often a worker took up one of them.
        lost: how often it was not heard of again, because the worker or the whole run ended.
        computed_twice: cells of which a second result came in; 0 unless something is wrong.
        seconds: that the experiments of the done cells took together.
    """

    total: int
    done: int
    failed: int
    waiting: int
    started: int
    lost: int
    computed_twice: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The counts, as plain JSON."""
        return asdict(self)
