"""Where cells are computed: processes on this machine by default, or a scheduler somewhere else."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker

import dask
from distributed import Client, LocalCluster
from distributed.utils import silence_logging_cmgr

from exhume.errors import ExhumeError, InputError
from exhume.sweep.work import versions
from exhume.sweep.workplace import check_workplace

# Seconds within which a scheduler must answer, and then have a worker.
_ANSWER = 5
_FIRST_WORKER = 60
# Seconds that a worker process which died has to come back, before another takes its place.
_RESTART = 120
# dask has workers hand freed memory back at once, and an attack frees large matrices all the time: every one would be
# mapped and zeroed anew. 32 MiB is the most that glibc lets be kept off the map.
_KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(2**30), "MALLOC_MMAP_THRESHOLD_": str(2**25)}


@dataclass(frozen=True)
class Workforce:
    """A client, and the cluster of `kept` workers behind it if that was started here."""

    client: Client
    cluster: LocalCluster | None = None
    kept: int = 0

    def count(self) -> int:
        """How many cells can be computed at a time; workers that did not come back are replaced."""
        try:
            threads = sum(self.client.nthreads().values())
        except OSError as error:
            raise ExhumeError("the scheduler is gone; start it, and run again to go on") from error
        if self.cluster is not None and threads < self.kept:
            self.cluster.scale(self.kept)
        return threads


@contextmanager
def workforce(scheduler: str | None = None, workers: int | None = None) -> Iterator[Workforce]:
    """The workers of a scheduler, or `workers` processes (as many as cores) that end with the block."""
    check_workplace(scheduler, workers)
    with _embedded(workers) if scheduler is None else _elsewhere(scheduler) as found:
        yield found


@contextmanager
def _embedded(workers: int | None) -> Iterator[Workforce]:
    count = cores() if workers is None else workers
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    settings = {
        "distributed.deploy.lost-worker-timeout": _RESTART,
        "distributed.nanny.pre-spawn-environ": one_thread | _KEEP_MEMORY,
    }
    with dask.config.set(settings):
        with _interrupts_waiting() as interrupts:
            cluster = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                # No dashboard; the pages that a scheduler serves anyway stay on this machine, on any free port.
                scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                memory_limit=0,
                env=one_thread,
                silence_logs=logging.CRITICAL,
            )
        with cluster, Client(cluster, set_as_default=False) as client:
            if interrupts:
                raise KeyboardInterrupt
            yield Workforce(client, cluster, kept=count)


@contextmanager
def _interrupts_waiting() -> Iterator[list[int]]:
    """Lists the interrupts that come in the block; processes that are started in it, or from its threads, ignore them.

    Ctrl-C reaches every process of a terminal, but the workers are ended by the one that started them.
    """
    interrupts: list[int] = []
    in_charge = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number)) if in_charge else None
    resource_tracker.ensure_running()  # it would lift the mask
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield interrupts
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _elsewhere(scheduler: str) -> Iterator[Workforce]:
    try:
        client = Client(scheduler, timeout=_ANSWER, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"no scheduler answers at {scheduler}: {error}") from error
    # What Dask has to say of a lost scheduler, it says in pages of tracebacks.
    with silence_logging_cmgr(logging.CRITICAL), client:
        try:
            client.wait_for_workers(1, timeout=_FIRST_WORKER)
        except TimeoutError as error:
            message = f"the scheduler at {scheduler} has no worker; start one with `dask worker {scheduler}`"
            raise InputError(message) from error
        _check_versions(client, scheduler)
        yield Workforce(client)


def _check_versions(client: Client, scheduler: str) -> None:
    """The same cell must mean the same everywhere."""
    try:
        found = client.run(versions)
    except Exception as error:
        raise InputError(f"a worker of {scheduler} cannot run exhume: {type(error).__name__}: {error}") from error
    here = versions()["exhume"]
    for worker, there in found.items():
        if there["exhume"] != here:
            raise InputError(f"worker {worker} has exhume {there['exhume']}; valid: {here}, the version here")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))
