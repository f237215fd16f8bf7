"""A store, a function that runs cells into it, and a log of the workers' actions."""

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
        options = {"sweep": "a", "workers": in_process_scheduler} | options
        return run_sweep(cells, store, experiment=experiment, **options)

    return run


@pytest.fixture
def journal(tmp_path, monkeypatch):
    """The log lines of the workers: (word, key, worker)."""
    path = tmp_path / "journal"
    path.touch()
    monkeypatch.setenv(fake_experiments.JOURNAL, str(path))
    return lambda: [tuple(line.split()) for line in path.read_text().splitlines()]
