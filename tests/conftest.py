"""What all tests share: the folder of real data sets."""

import os
from pathlib import Path

import pytest

_BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "data"


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
