"""What an attack would run on: this machine, measured in a few seconds, or hardware in stated numbers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import torch

from exhume.errors import InputError
from exhume.features import RandomFeatureMap
from exhume.features.matrix import DenseMatrix, GaussianMatrix
from exhume.support.text import parse_bytes, plural
from exhume.support.threads import threads_for, usable_cores
from exhume.support.validation import positive_number, whole_number

# Numbers of V that one process draws per second where nothing is stated: a host of some 25 cores. exhume draws V on the
# CPU, on whatever device it computes.
DRAWING = 1e9
# Numbers of V that are timed: 64 MB, more than caches hold.
_ENTRIES = 2**24
# Sizes beyond which products are no faster: what is timed stays below them.
_MOST_ROWS, _MOST_DIM = 300, 4096
_REPEATS = 3
# Where the memory limit of a container stands (cgroups 2 and 1).
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@dataclass(frozen=True)
class Hardware:
    """Speeds and sizes of one process, and how many of them there are.

    Attributes:
        name: as sentences name it.
        flops: float32 operations per second in matrix products.
        bandwidth: bytes per second that are read from memory.
        memory: bytes of a process; may be given as a size such as "80GB".
        processes: how many share the coordinates.
        network: bytes per second that a process sends to the others; needed for more than one process.
        drawing: numbers of V drawn per second.
        conversion: numbers per second from half precision to float32; None: as fast as they are read.
        flops_by_rows: (rows, flops) of products with fewer rows, as measured, in ascending order.
        cores: of this machine, where it was measured; torch may be set to use fewer.

    Examples:
        >>> from exhume.planning import Hardware
        >>> Hardware("a workstation", flops=2e12, bandwidth=2e11, memory="64GB").memory
        64000000000
    """

    name: str
    flops: float
    bandwidth: float
    memory: int
    processes: int = 1
    network: float | None = None
    drawing: float = DRAWING
    conversion: float | None = None
    flops_by_rows: tuple[tuple[int, float], ...] = ()
    cores: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", parse_bytes(self.memory, "memory"))
        for field in ("flops", "bandwidth", "memory", "drawing", "network", "conversion"):
            if getattr(self, field) is not None:
                positive_number(field, getattr(self, field))
        whole_number("processes", self.processes)
        if self.processes > 1 and self.network is None:
            raise InputError(f"processes is {self.processes} and no network is given; valid: its bytes per second")

    @classmethod
    def probe(
        cls, rows: Sequence[int] = (10, 100, _MOST_ROWS), dim: int = 3072, coordinates: int | None = None
    ) -> Hardware:
        """Measures this machine in a few seconds: products, memory and drawing V, with the threads torch is set to.

        Args:
            rows: numbers of samples for which products are measured; speeds between them are interpolated.
            dim: d.
            coordinates: rows of V that would be read, if they are few.
        """
        counts = sorted({min(count, _MOST_ROWS) for count in rows})
        dim = min(dim, _MOST_DIM)
        height = min(max(1, _ENTRIES // dim), coordinates or _ENTRIES)
        with threads_for((coordinates or height) * dim * counts[-1]):  # as many threads as the attack takes
            matrix = GaussianMatrix(height, dim, seed=0, memory_budget=4 * height * dim - 1)
            drawn = torch.empty(height, dim)
            began = time.perf_counter()
            for part, entries in matrix.chunks():
                drawn[part] = entries
            drawing = time.perf_counter() - began
            features = RandomFeatureMap(DenseMatrix(drawn), "relu")
            flops = tuple((count, _product_speed(features, count)) for count in counts)
            large = drawn if drawn.numel() >= _ENTRIES // 2 else torch.ones(_ENTRIES)
            halves, singles = large.half(), torch.empty_like(large)
            reading, converting = _shortest(large.sum), _shortest(lambda: singles.copy_(halves))
            threads = torch.get_num_threads()
        cores = usable_cores()
        used = plural(cores, "core") if threads >= cores else f"{plural(threads, 'thread')} on {plural(cores, 'core')}"
        return cls(
            f"this machine ({used})",
            flops=flops[-1][1],
            bandwidth=4 * large.numel() / reading,
            memory=available_memory(),
            drawing=drawn.numel() / drawing,
            conversion=large.numel() / converting,
            flops_by_rows=flops,
            cores=cores,
        )

    def speed(self, rows: int) -> float:
        """Operations per second in a product with so many rows; between those measured, along a power law."""
        if not self.flops_by_rows:
            return self.flops
        measured, speeds = np.log(self.flops_by_rows).T
        return float(np.exp(np.interp(math.log(rows), measured, speeds)))

    def to_json(self) -> dict[str, Any]:
        """Every field, as plain JSON values."""
        return {**asdict(self), "flops_by_rows": [list(pair) for pair in self.flops_by_rows]}


# NVIDIA's H100 SXM at 70 % of its peaks (data sheet: 67 Tflop/s in float32, 3.35 TB/s, 80 GB). TF32 is faster, but its
# ten bits end far above the residual at which samples are found.
GPU = Hardware("one GPU (H100)", flops=47e12, bandwidth=2.3e12, memory=80 * 10**9)


def available_memory(limits: Sequence[Path] = _LIMITS) -> int:
    """Bytes that are free for a new process, within the limit of a container."""
    available: int = psutil.virtual_memory().available
    for limit in limits:
        with suppress(OSError, ValueError):  # no container, or "max"
            available = min(available, int(limit.read_text()))
    return available


def _product_speed(features: RandomFeatureMap, rows: int) -> float:
    """Operations per second of one product V X^T and one C V, as the attack computes them."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn((rows, features.input_dim), generator=generator)
    cotangents = torch.randn((rows, features.num_features), generator=generator)
    seconds = _shortest(lambda: features.matvec(inputs)) + _shortest(lambda: features.rmatvec(cotangents))
    return 4 * features.num_features * features.input_dim * rows / seconds


def _shortest(work: Callable[[], object]) -> float:
    """Seconds of the quickest of a few runs: the others shared the machine with other work."""
    shortest = math.inf
    for _ in range(_REPEATS):
        began = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - began)
    return max(shortest, 1e-9)
