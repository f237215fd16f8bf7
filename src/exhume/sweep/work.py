"""The worker's side of a sweep: one cell, computed with one thread, whose errors are part of the report."""

from __future__ import annotations

import platform
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from distributed import get_worker

from exhume.errors import ExhumeError
from exhume.sweep.cell import Cell
from exhume.sweep.outcome import Finished
from exhume.version import VERSION

Experiment = Callable[[Cell], Finished]

# Characters of an error that are kept: the message, and the traceback of an error that no one foresaw.
_LONGEST_ERROR = 10_000


@dataclass(frozen=True)
class Report:
    """What a worker sends back: an outcome or an error."""

    finished: Finished | None
    error: str | None
    seconds: float
    worker: str
    versions: dict[str, str]


def compute(experiment: Experiment, config: dict[str, Any], key: str, topic: str) -> Report:
    """Runs the experiment of a cell; says so first, under the topic that the client listens to."""
    worker = get_worker()
    worker.log_event(topic, {"key": key, "worker": worker.address})
    torch.set_num_threads(1)
    started = time.perf_counter()
    finished, problem = None, None
    try:
        finished = experiment(Cell.model_validate(config))
    except ExhumeError as error:
        problem = _first_line(error)
    except (Exception, SystemExit) as error:
        problem = f"{_first_line(error)}\n{''.join(traceback.format_exception(error))}"[:_LONGEST_ERROR]
    return Report(finished, problem, time.perf_counter() - started, worker.address, versions())


def versions() -> dict[str, str]:
    """What computes here."""
    return {"exhume": VERSION, "python": platform.python_version(), "torch": torch.__version__}


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
