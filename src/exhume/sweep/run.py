"""Running a sweep: waiting cells go to workers, and each result goes into the store when it arrives.

Only this process writes to the store. It submits as many cells as workers have threads, so that a cell that kills its
worker takes no queued cell with it.
"""

from __future__ import annotations

import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from exhume.errors import ExhumeError
from exhume.sweep import experiment as experiments
from exhume.sweep.cell import Cell
from exhume.sweep.cluster import Workers, Workforce, check_workers, versions, workforce
from exhume.sweep.experiment import Finished
from exhume.sweep.store import Counts, Store

if TYPE_CHECKING:
    from distributed import Client, Future

Experiment = Callable[[Cell], Finished]

# Seconds after which progress is reported and the workers are counted again even if no cell has ended.
_TICK = 1.0
# Characters of an error that are stored: its message, and the traceback of an unexpected one.
_LONGEST_ERROR = 10_000


@dataclass(frozen=True)
class SweepProgress:
    """Progress of a run.

    Attributes:
        total, done, failed: cells of the sweep.
        running: cells that workers have.
        workers: how many cells can be computed at a time.
        seconds_left: an estimate, cells left x mean time of a cell / workers; None before the first cell is done.
        latest: the cell that has just ended, in a few words; empty if none has.
    """

    total: int
    done: int
    failed: int
    running: int
    workers: int
    seconds_left: float | None
    latest: str


Progress = Callable[[SweepProgress], None]


@dataclass(frozen=True)
class Report:
    """What a worker sends back for a cell: an outcome or an error."""

    finished: Finished | None
    error: str
    seconds: float
    worker: str
    versions: dict[str, str]


def run_sweep(
    cells: Iterable[Cell],
    store: Store,
    *,
    sweep: str,
    workers: Workers = None,
    retry_failed: bool = False,
    progress: Progress | None = None,
    experiment: Experiment = experiments.run,
) -> Counts:
    """Computes the cells that the store does not have yet.

    Args:
        cells: of the sweep. Those that are done, or failed before, are left as they are.
        store: that the outcomes go to.
        sweep: the name of the sweep; these cells are then its cells.
        workers: how many processes to start on this machine (None: as many as cores), or the address of a Dask
            scheduler whose workers are used.
        retry_failed: whether to compute the failed cells of this sweep again.
        progress: called when a cell has ended, and at least about every second.
        experiment: run for each cell; a function that workers can import.
    """
    check_workers(workers)
    with store.locked():
        store.register(sweep, cells)
        before = store.counts(sweep)
        if before.waiting or (retry_failed and before.failed):
            with workforce(workers) as found:
                # Only once there are workers: a run that cannot start keeps the errors of failed cells.
                if retry_failed:
                    store.retry(sweep)
                _compute_waiting(store, sweep, found, experiment, progress or (lambda _: None))
        return store.counts(sweep)


def compute(experiment: Experiment, config: dict[str, Any]) -> Report:
    """Runs the experiment of a cell on a worker, with one thread; its errors are part of the report."""
    from distributed import get_worker

    torch.set_num_threads(1)
    started = time.perf_counter()
    finished, problem = None, ""
    try:
        finished = experiment(Cell.model_validate(config))
    except ExhumeError as error:
        problem = _one_line(error)
    except (Exception, SystemExit) as error:
        problem = f"{_one_line(error)}\n{''.join(traceback.format_exception(error))}"[:_LONGEST_ERROR]
    return Report(finished, problem, time.perf_counter() - started, get_worker().address, versions())


def _compute_waiting(store: Store, sweep: str, workers: Workforce, experiment: Experiment, progress: Progress) -> None:
    """Computes cells until none waits. However it ends, stored results stay."""
    from distributed import CancelledError

    waiting = deque(record.cell for record in store.records(sweep) if record.state == "waiting")
    running: dict[Future[Report], Cell] = {}
    run = uuid.uuid4().hex  # two runs with the same scheduler must not share tasks
    try:
        while waiting or running:
            threads = workers.num_threads()
            while waiting and len(running) < max(threads, 1):
                cell = waiting.popleft()
                key = f"exhume-{run}-{cell.key}"
                running[workers.client.submit(compute, experiment, cell.to_json(), key=key, pure=False)] = cell
            progress(_progress(store.counts(sweep), len(running), threads, ""))
            for future in _wait(workers.client, running):
                latest = _store_result(store, running.pop(future), future)
                progress(_progress(store.counts(sweep), len(running), threads, latest))
    except CancelledError as error:  # from a wait, or from reading a result that had come
        raise ExhumeError("the scheduler is gone, or its tasks were cancelled; run again to go on") from error
    finally:
        # Not empty only after an error or an interruption.
        for future in running:
            future.cancel()


def _wait(client: Client, futures: Iterable[Future[Report]]) -> set[Future[Report]]:
    """The futures that have ended, after at most a tick.

    Not by `as_completed`: its timeout ends all of the iteration, and progress is reported every tick.
    """
    from distributed import wait

    try:
        with client.as_current():
            return set(wait(list(futures), timeout=_TICK, return_when="FIRST_COMPLETED").done)
    except TimeoutError:
        return set()


def _store_result(store: Store, cell: Cell, future: Future[Report]) -> str:
    """Stores the outcome or the error of a cell; returns a short description."""
    from distributed import CancelledError, KilledWorker

    error = future.exception()
    if isinstance(error, CancelledError):
        raise error
    if error is None:
        report = future.result()
        seconds, worker, versions = report.seconds, report.worker, report.versions
        if report.finished is not None:
            store.finish(cell.key, report.finished, seconds=seconds, worker=worker, versions=versions)
            return f"done: {cell.title}"
        message = report.error
        store.fail(cell.key, message, seconds=seconds, worker=worker, versions=versions)
    else:
        message = _one_line(error)
        if isinstance(error, KilledWorker):
            message = f"its worker died (out of memory, or killed), {error.allowed_failures + 1} times"
        store.fail(cell.key, message)
    return f"failed: {cell.title}: {message.splitlines()[0]}"


def _progress(counts: Counts, running: int, threads: int, latest: str) -> SweepProgress:
    left = counts.waiting * counts.seconds / counts.done / max(threads, 1) if counts.done else None
    return SweepProgress(counts.total, counts.done, counts.failed, running, threads, left, latest)


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
