"""Running a sweep: what waits goes to workers, what comes back goes into the store, one transaction a cell.

Only this process writes to the store. As many cells are under way as workers have threads, so that nothing is queued
behind a long one, and a lost worker's cell is the only suspect of its loss.
"""

from __future__ import annotations

import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exhume.errors import ExhumeError
from exhume.sweep import experiment as experiments
from exhume.sweep.cell import Cell
from exhume.sweep.outcome import Finished
from exhume.sweep.record import Counts
from exhume.sweep.store import Store
from exhume.sweep.time_left import TimeLeft
from exhume.sweep.workplace import check_workplace

if TYPE_CHECKING:
    from distributed import Future

    from exhume.sweep.cluster import Workforce

Experiment = Callable[[Cell], Finished]

# Seconds after which progress is shown even if nothing has happened, and the workers are counted again.
_TICK = 1.0


@dataclass(frozen=True)
class SweepProgress:
    """How far a run is.

    Attributes:
        total, done, failed: cells of the sweep.
        running: cells under way.
        workers: threads that could compute one.
        seconds_left: an estimate; None as long as there is nothing to base it on.
        latest: what has just happened, in a few words; empty if nothing has.
    """

    total: int
    done: int
    failed: int
    running: int
    workers: int
    seconds_left: float | None
    latest: str


Progress = Callable[[SweepProgress], None]


def run_sweep(
    cells: Iterable[Cell],
    store: Store,
    *,
    sweep: str,
    parts: Mapping[str, Iterable[Cell]] | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    experiment: Experiment = experiments.run,
    retry_failed: bool = False,
) -> Counts:
    """Computes the cells that the store does not have yet.

    Args:
        cells: of the sweep; those that are done, or failed before, are left as they are.
        store: that the outcomes go to.
        sweep: the name of the sweep; these cells are then its cells.
        parts: sweeps with some of these cells, by name; they are registered with it, while no other run can write.
        scheduler: address of a Dask scheduler; None starts processes on this machine.
        workers: how many processes; None takes as many as there are cores.
        progress: called when something happens, and at least every second or so.
        experiment: what is run for a cell; a function that workers can import.
        retry_failed: whether to try the failed cells of this sweep again.
    """
    check_workplace(scheduler, workers)
    with store.locked():
        for name, members in {**(parts or {}), sweep: cells}.items():
            store.register(name, members)
        store.lose_unfinished()
        before = store.counts(sweep)
        if before.waiting or (retry_failed and before.failed):
            # Imported only here: Dask takes its time, and a finished sweep has no use for it.
            from exhume.sweep.cluster import workforce

            with workforce(scheduler, workers) as found:
                # Not before there are workers: a run that cannot start leaves the errors where they are.
                if retry_failed:
                    store.retry(sweep)
                _Run(found, store, sweep, experiment, progress or (lambda _: None)).to_the_end()
        return store.counts(sweep)


class _Run:
    """One run: the cells that wait, those that are under way, and what has been heard of them."""

    def __init__(
        self, workers: Workforce, store: Store, sweep: str, experiment: Experiment, progress: Progress
    ) -> None:
        self._workers, self._store, self._experiment, self._progress = workers, store, experiment, progress
        self._topic = f"exhume-{uuid.uuid4().hex}"
        self._news: queue.SimpleQueue[dict[str, str] | Future[Any]] = queue.SimpleQueue()
        self._waiting: deque[Cell] = deque()
        self._flying: dict[str, tuple[Cell, Future[Any]]] = {}
        self._running: dict[str, tuple[str, float]] = {}  # key: worker, since when
        self._starts: Counter[str] = Counter()
        self._resubmitted: set[str] = set()
        self._submitted = 0
        self._time_left = TimeLeft()
        self._total = self._done = self._failed = 0
        self._threads, self._counted_at = 0, -_TICK
        for record in store.records(sweep):
            self._total += 1
            self._done += record.state == "done"
            self._failed += record.state == "failed"
            if record.state == "done" and record.seconds is not None:
                self._time_left.learn(record.cell, record.seconds)
            if record.state == "waiting":
                self._waiting.append(record.cell)
                self._time_left.expect(record.cell)

    def to_the_end(self) -> None:
        """Goes on until no cell waits; whatever ends it, what is in the store stays."""
        self._workers.client.subscribe_topic(self._topic, lambda event: self._news.put(event[1]))
        try:
            while self._waiting or self._flying:
                self._count_threads()
                while self._waiting and len(self._flying) < max(self._threads, 1):
                    self._submit(self._waiting.popleft())
                try:
                    latest = self._hear(self._news.get(timeout=_TICK))
                except queue.Empty:
                    latest = ""
                self._show(latest)
        finally:
            # After an interruption only: those under way are not wanted any more.
            for _, future in self._flying.values():
                future.cancel()

    def _submit(self, cell: Cell) -> None:
        from exhume.sweep.work import compute

        self._submitted += 1
        future = self._workers.client.submit(
            compute,
            self._experiment,
            cell.to_json(),
            cell.key,
            self._topic,
            key=f"{self._topic}-{cell.key}-{self._submitted}",
            pure=False,
        )
        self._flying[cell.key] = (cell, future)
        future.add_done_callback(self._news.put)

    def _hear(self, news: dict[str, str] | Future[Any]) -> str:
        """A cell has been taken up, or a future has come to its end."""
        if isinstance(news, dict):
            self._begin(news["key"], news["worker"])
            return ""
        for key, (cell, future) in self._flying.items():
            if future.key == news.key:
                return self._end(key, cell, future)
        return ""

    def _begin(self, key: str, worker: str) -> None:
        if key not in self._flying:
            return
        self._lose(key)
        self._store.begin(key, worker)
        self._running[key] = (worker, time.monotonic())
        self._starts[key] += 1

    def _lose(self, key: str) -> None:
        if key in self._running:
            self._store.lose(key, f"worker {self._running.pop(key)[0]} is gone")

    def _end(self, key: str, cell: Cell, future: Future[Any]) -> str:
        from distributed import KilledWorker

        report, error = None, None
        try:
            report = future.result()
        except Exception as raised:
            error = raised
        if future.status not in ("finished", "error"):
            raise ExhumeError(f"the scheduler is gone, or its cells were {future.status}; run again to go on")
        if isinstance(error, KilledWorker):
            if self._starts[key] < error.allowed_failures and key not in self._resubmitted:
                # It was queued on workers that others killed.
                self._resubmitted.add(key)
                self._submit(cell)
                return ""
            error = ExhumeError(f"its worker died (out of memory, or killed); taken up {self._starts[key]} times")
        message = self._drop(key, error) if error is not None else self._keep(key, cell, report)
        del self._flying[key]
        self._running.pop(key, None)
        self._time_left.expect(cell, -1)
        self._failed += bool(message)
        self._done += not message
        return f"failed: {cell.title}: {message.splitlines()[0]}" if message else f"done: {cell.title}"

    def _drop(self, key: str, error: Exception) -> str:
        """Stores what went wrong outside the experiment; returns it."""
        self._lose(key)
        message = str(error) if isinstance(error, ExhumeError) else f"{type(error).__name__}: {error}"
        self._store.fail(key, message)
        return message

    def _keep(self, key: str, cell: Cell, report: Any) -> str:
        """Stores a report; returns its error."""
        if key not in self._running:
            self._begin(key, report.worker)
        about = {"seconds": report.seconds, "worker": report.worker, "versions": report.versions}
        if report.finished is None:
            self._store.fail(key, report.error, **about)
            return str(report.error)
        self._store.finish(key, report.finished, **about)
        self._time_left.learn(cell, report.seconds)
        return ""

    def _count_threads(self) -> None:
        if time.monotonic() - self._counted_at >= _TICK:
            self._threads = self._workers.count()
            self._counted_at = time.monotonic()

    def _show(self, latest: str) -> None:
        now = time.monotonic()
        running = [(self._flying[key][0], now - since) for key, (_, since) in self._running.items()]
        left = self._time_left.seconds(running, self._threads)
        self._progress(SweepProgress(self._total, self._done, self._failed, len(running), self._threads, left, latest))
