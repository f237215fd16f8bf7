"""What the data tests share: the real data sets, and small files in the official formats."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

_BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def real_data() -> Path:
    """The folder of real data sets; without one the test is skipped, or fails where CI promises that it is there."""
    chosen = os.environ.get("EXHUME_DATA")
    home = Path(chosen) if chosen else _BESIDE_THE_REPOSITORY
    if not home.is_dir():
        reason = f"no data sets: EXHUME_DATA is not set to a folder and {_BESIDE_THE_REPOSITORY} does not exist"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return home


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
