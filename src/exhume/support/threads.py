"""Threads: one for small problems, where handing work out costs more than it saves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Multiplications a feature pass from which more than one thread pays. On two busy cores a pass of 7 million took 42 ms
# with two threads and 4 ms with one; a pass of 3 billion (CIFAR-10, n = 10) takes nearly half the time with two.
_WORTH_SHARING = 10**8


@contextmanager
def threads_for(multiplications: int) -> Iterator[None]:
    """Runs the block with one thread if a feature pass has few multiplications; restores the setting after it."""
    before = torch.get_num_threads()
    if multiplications < _WORTH_SHARING:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
