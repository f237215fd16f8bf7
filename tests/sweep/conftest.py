"""A store, a way to run cells into it, and a journal of what workers did."""

import fake_experiments
import pytest

from exhume.sweep.run import run_sweep
from exhume.sweep.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "sweep.sqlite") as opened:
        yield opened


@pytest.fixture
def run(store, in_process_scheduler):
    """Runs cells on the workers of this process."""

    def run(cells, experiment=fake_experiments.quick, **options):
        options = {"sweep": "a", "scheduler": in_process_scheduler} | options
        return run_sweep(cells, store, experiment=experiment, **options)

    return run


@pytest.fixture
def journal(tmp_path, monkeypatch):
    """What workers say that they did: (word, key) pairs."""
    path = tmp_path / "journal"
    path.touch()
    monkeypatch.setenv(fake_experiments.JOURNAL, str(path))
    return lambda: [tuple(line.split()) for line in path.read_text().splitlines()]
