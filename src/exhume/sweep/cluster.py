"""The workers that compute cells: processes on this machine, or those of a Dask scheduler.

Dask is imported when workers are needed: it takes a second to load, and a finished sweep needs none.
"""

from __future__ import annotations

import logging
import platform
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING

import torch

from exhume import __version__
from exhume.errors import ExhumeError, InputError
from exhume.support.extras import load_extra
from exhume.support.threads import usable_cores
from exhume.support.validation import whole_number

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

# How many processes to start on this machine (None: as many as cores), or the address of a Dask scheduler.
Workers = int | str | None

# Seconds within which a scheduler must answer, and then have a worker.
_ANSWER = 5
_FIRST_WORKER = 60
# Seconds that a worker process that died has for its restart, before another is started in its place.
_RESTART = 120
# Dask makes its workers return freed memory to the system at once. An attack frees large matrices all the time, and
# each would be mapped and zeroed again. 32 MiB is the largest size that glibc can keep.
_KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(2**30), "MALLOC_MMAP_THRESHOLD_": str(2**25)}


def check_workers(workers: Workers) -> None:
    """Raises an InputError if no run could start with these workers; starts and asks nothing."""
    if isinstance(workers, str) and not re.fullmatch(r"(tcp|tls)://.+:\d+", workers):
        raise InputError(f"scheduler is {workers!r}; valid: an address such as tcp://127.0.0.1:8786")
    if isinstance(workers, int):
        whole_number("workers", workers)


def workers_of(scheduler: str | None, workers: int | None) -> Workers:
    """The workers that the two options of a command ask for, checked."""
    if scheduler is not None and workers is not None:
        raise InputError(f"workers is {workers}, but those of {scheduler} are started elsewhere; give one of the two")
    chosen = workers if scheduler is None else scheduler
    check_workers(chosen)
    return chosen


def versions() -> dict[str, str]:
    """The versions of exhume, Python and torch in this process."""
    return {"exhume": __version__, "python": platform.python_version(), "torch": torch.__version__}


@dataclass(frozen=True)
class Workforce:
    """A Dask client; if the cluster was started here, also the cluster and its intended number of workers."""

    client: Client
    cluster: LocalCluster | None = None
    intended: int = 0

    def num_threads(self) -> int:
        """How many cells can be computed at a time. Replaces workers that died and did not restart."""
        try:
            threads = sum(self.client.nthreads().values())
        except OSError as error:
            raise ExhumeError("the scheduler is gone; start it, and run again to go on") from error
        if self.cluster is not None and threads < self.intended:
            self.cluster.scale(self.intended)
        return threads


@contextmanager
def workforce(workers: Workers = None) -> Iterator[Workforce]:
    """Connects to the workers of a scheduler, or starts processes that end with the block."""
    check_workers(workers)
    load_extra("sweep", "distributed")
    with _connected(workers) if isinstance(workers, str) else _started(workers) as found:
        yield found


@contextmanager
def _started(workers: int | None) -> Iterator[Workforce]:
    import dask
    from distributed import Client, LocalCluster

    count = usable_cores() if workers is None else workers
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    settings = {
        "distributed.deploy.lost-worker-timeout": _RESTART,
        "distributed.nanny.pre-spawn-environ": one_thread | _KEEP_MEMORY,
    }
    with dask.config.set(settings):
        with _interrupts_deferred() as interrupts:
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
            yield Workforce(client, cluster, intended=count)


@contextmanager
def _interrupts_deferred() -> Iterator[list[int]]:
    """Collects the interrupts that arrive during the block; processes started in it, or by its threads, ignore them.

    Ctrl-C reaches every process of a terminal, but only the process that started the workers should end them.
    """
    interrupts: list[int] = []
    in_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number)) if in_main_thread else None
    resource_tracker.ensure_running()  # started later, it would unblock the signal
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield interrupts
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _connected(scheduler: str) -> Iterator[Workforce]:
    from distributed import Client
    from distributed.utils import silence_logging_cmgr

    try:
        client = Client(scheduler, timeout=_ANSWER, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"no scheduler answers at {scheduler}: {error}") from error
    # Dask logs pages of tracebacks when a scheduler is lost.
    with silence_logging_cmgr(logging.CRITICAL), client:
        try:
            client.wait_for_workers(1, timeout=_FIRST_WORKER)
        except TimeoutError as error:
            message = f"the scheduler at {scheduler} has no worker; start one with `dask worker {scheduler}`"
            raise InputError(message) from error
        _check_versions(client, scheduler)
        yield Workforce(client)


def _check_versions(client: Client, scheduler: str) -> None:
    """Refuses workers with another version of exhume, which may compute a cell differently."""
    try:
        found = client.run(versions)
    except Exception as error:
        raise InputError(f"a worker of {scheduler} cannot run exhume: {type(error).__name__}: {error}") from error
    here = versions()["exhume"]
    for worker, there in found.items():
        if there["exhume"] != here:
            raise InputError(f"worker {worker} has exhume {there['exhume']}; valid: {here}, the version here")
