"""A small run for the command line."""

import pytest


@pytest.fixture
def small_run(exhume_command, tmp_path):
    """A run folder with a tiny victim."""
    folder = tmp_path / "run"
    code, _, err = exhume_command(
        "train", "rf", "--data", "sphere", "--dim", 20, "--samples", 2, "--ratio", 60, "--out", folder
    )
    assert code == 0, err
    return folder
