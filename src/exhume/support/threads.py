"""How many threads a problem is worth: several cost small ones more than they save; and how many cores there are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Multiplications of a feature pass from which several threads are faster than one. On two busy cores a pass of 7
# million took 42 ms with two threads and 4 ms with one; a pass of 3 billion (CIFAR-10, n = 10) takes nearly half the
# time with two.
_LEAST_FOR_THREADS = 10**8


@contextmanager
def threads_for(multiplications: int) -> Iterator[None]:
    """Runs the block with one thread if a feature pass has few multiplications; restores the setting after it."""
    before = torch.get_num_threads()
    if multiplications < _LEAST_FOR_THREADS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
