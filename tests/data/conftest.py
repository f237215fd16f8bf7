"""Fixtures of the data tests: small files in the official formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest


def _cifar_records(labels: list[int], seed: int = 0) -> np.ndarray:
    records = np.random.default_rng(seed).integers(0, 256, (len(labels), 3073), dtype=np.uint8)
    records[:, 0] = labels
    return records


@pytest.fixture
def cifar_records() -> Callable[..., np.ndarray]:
    """Makes binary CIFAR-10 records (m, 3073) of random pixels with given labels, from a seed."""
    return _cifar_records


@pytest.fixture
def small_cifar(tmp_path: Path) -> Path:
    """A data home with two small binary batches: classes 0 to 9 in turn, 20 records each."""
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for number in (1, 2):
        _cifar_records([*range(10), *range(10)], seed=number).tofile(folder / f"data_batch_{number}.bin")
    return tmp_path
