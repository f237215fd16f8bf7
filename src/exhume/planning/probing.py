"""The probe: a few seconds of the attack's own operations, timed on this machine."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from exhume.errors import InputError
from exhume.features import RandomFeatureMap
from exhume.features.gaussian import DenseMatrix, GaussianMatrix
from exhume.threads import threads_for

# Numbers of V in the probe: 64 MB, more than caches hold.
_ENTRIES = 2**24
# Sizes beyond which products are no faster: the probe stays below them.
MOST_ROWS = 300
_MOST_DIM = 4096
_REPEATS = 3
_MEMINFO = Path("/proc/meminfo")
# Where a container is told how much memory it may use (cgroups 2 and 1).
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@dataclass(frozen=True)
class Calibration:
    """What was measured.

    Attributes:
        flops: (rows, operations a second) of V X^T and C V together, in ascending order of rows.
        bandwidth: bytes a second that are read from memory.
        drawing: numbers of V drawn in a second.
        conversion: numbers a second from half precision to float32.
        cores: that this process may use.
        threads: that the products were given.
    """

    flops: tuple[tuple[int, float], ...]
    bandwidth: float
    drawing: float
    conversion: float
    cores: int
    threads: int


def measure(rows: Sequence[int], dim: int, coordinates: int | None = None) -> Calibration:
    """Times products of so many rows with a part of V, reading it, drawing it and converting it."""
    counts = sorted({min(count, MOST_ROWS) for count in rows})
    dim = min(dim, _MOST_DIM)
    height = max(1, _ENTRIES // dim)
    if coordinates is not None:
        height = min(height, coordinates)
    # The threads that the attack would take (exhume.attacks.base).
    with threads_for((coordinates or height) * dim * counts[-1]):
        matrix = GaussianMatrix(height, dim, seed=0, memory_budget=4 * height * dim - 1)
        drawn = torch.empty(height, dim)
        began = time.perf_counter()
        for part, entries in matrix.chunks():
            drawn[part] = entries
        drawing = time.perf_counter() - began
        features = RandomFeatureMap(DenseMatrix(drawn), "relu")
        flops = tuple((count, _product_speed(features, count)) for count in counts)
        large = drawn if drawn.numel() >= _ENTRIES // 2 else torch.ones(_ENTRIES)
        halves, whole = large.half(), torch.empty_like(large)
        reading, converting = _shortest(large.sum), _shortest(lambda: whole.copy_(halves))
        threads = torch.get_num_threads()
    return Calibration(
        flops=flops,
        bandwidth=4 * large.numel() / reading,
        drawing=drawn.numel() / drawing,
        conversion=large.numel() / converting,
        cores=usable_cores(),
        threads=threads,
    )


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_words(measured: Calibration) -> str:
    """What was measured on: "2 cores", or "1 thread on 2 cores" where torch leaves some idle."""
    cores, threads = (
        f"{count} {name}{'' if count == 1 else 's'}"
        for count, name in ((measured.cores, "core"), (measured.threads, "thread"))
    )
    return cores if measured.threads >= measured.cores else f"{threads} on {cores}"


def available_memory(meminfo: Path = _MEMINFO, limits: Sequence[Path] = _LIMITS) -> int:
    """Bytes that are free for a new process, within the limit of a container."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        available = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        available = _physical_memory()
    for limit in limits:
        try:
            available = min(available, int(limit.read_text()))
        except (OSError, ValueError):  # no container, or "max"
            continue
    return available


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError) as error:
        raise InputError("this system does not say how much memory it has; state it (--memory)") from error


def _product_speed(features: RandomFeatureMap, rows: int) -> float:
    """Operations a second of one product of each kind, as the attack makes them."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn((rows, features.input_dim), generator=generator)
    cotangents = torch.randn((rows, features.num_features), generator=generator)
    seconds = _shortest(lambda: features.preactivate(inputs)) + _shortest(lambda: features.pull_back(cotangents))
    return 4 * features.num_features * features.input_dim * rows / seconds


def _shortest(work: Callable[[], object]) -> float:
    """Seconds of the quickest of a few runs: the others met other work on the machine."""
    shortest = math.inf
    for _ in range(_REPEATS):
        began = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - began)
    return max(shortest, 1e-9)
