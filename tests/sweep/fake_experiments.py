"""Cells with experiments that take no time, for tests of the sweep itself; workers import them by name."""

import os
import signal
import time
from pathlib import Path

import torch
from distributed import get_worker

from exhume.errors import InputError
from exhume.sweep import Finished, Grid, Outcome

# Where `marked` leaves a line for each start and each end.
JOURNAL = "EXHUME_TEST_JOURNAL"


def cells_of(seeds=4, ratio=2):
    return Grid(data="sphere", ratio=ratio, attack="exact", seeds=seeds).cells()


def outcome(cell, **changes):
    values = dict.fromkeys(Outcome.model_fields, 0) | {
        "num_samples": 2,
        "input_dim": 3,
        "num_features": 7,
        "ratio": cell.ratio or 1.0,
        "error": cell.seed / 10,
        "signs_determined": True,
        "verdict": "exact",
        "stop": "converged",
        "target": cell.key,
    }
    return Outcome(**values | changes)


def quick(cell):
    return Finished(outcome=outcome(cell), pictures=b"pictures of " + cell.key.encode())


def endless(cell):
    time.sleep(600)
    return quick(cell)


def slow(cell):
    time.sleep(0.3)
    return quick(cell)


def marked(cell):
    """Takes a moment, and writes a line to the log at the start and at the end."""
    _write(f"started {cell.key} {get_worker().address}")
    time.sleep(0.3)
    _write(f"computed {cell.key} {get_worker().address}")
    return quick(cell)


def quick_and_marked(cell):
    """Writes a line to the log at the start."""
    _write(f"started {cell.key} {get_worker().address}")
    return quick(cell)


def odd_seeds_fail(cell):
    if cell.seed % 2:
        raise InputError(f"seed is {cell.seed}; valid: even ones")
    return quick(cell)


def seed_1_is_a_bug(cell):
    return quick(cell) if cell.seed != 1 else 1 / 0


def seed_1_kills_its_worker(cell):
    """The others report the threads that they may use."""
    if cell.seed == 1:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    threads = {"steps": torch.get_num_threads(), "passes": int(os.environ["OMP_NUM_THREADS"])}
    return Finished(outcome=outcome(cell, **threads))


def with_big_pictures(cell):
    return Finished(outcome=outcome(cell), pictures=bytes(50_000))


def _write(line):
    # One write of a short line to a file opened for appending is not torn apart by others.
    with Path(os.environ[JOURNAL]).open("a") as file:
        file.write(f"{line}\n")
