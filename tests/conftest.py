"""Fixtures of all tests: one thread per process, no deadlines, and the folder of real data sets."""

import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import hypothesis
import pytest

# Before torch and numpy are loaded, and for the commands that tests start: alone or beside other workers, the sums are
# made in the same order and no core is asked for twice.
os.environ["OMP_NUM_THREADS"] = "1"

# An example may take as long as it takes: beside other processes it is not the code that is slow.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


def pytest_configure(config):
    """Loads ART once before there are workers: its first import writes a file that a second one must not read half."""
    if not hasattr(config, "workerinput") and not (Path.home() / ".art" / "config.json").exists():
        subprocess.run([sys.executable, "-c", "import art"], check=False, capture_output=True)


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


@pytest.fixture(scope="session")
def in_process_scheduler():
    """Address of a Dask scheduler with two workers, all threads of this process: real, and started at once."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="session")
def exhume_command():
    """Runs `exhume <words>`; returns (exit code, standard output, standard error)."""

    from exhume import cli  # torch must not be loaded before its threads are set

    def run(*words):
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr("sys.argv", ["exhume", *map(str, words)])
            with pytest.raises(SystemExit) as ended:
                cli.main()
        return ended.value.code or 0, *(each.buffer.getvalue().decode() for each in (out, err))

    return run


@pytest.fixture(scope="session")
def exhume_json(exhume_command):
    """Runs `exhume <words> --json`; returns (exit code, the one object on standard output)."""

    def run(*words):
        code, out, err = exhume_command(*words, "--json")
        assert out, err
        return code, json.loads(out)

    return run


_BROWSER_OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def _missing(reason):
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    """Chromium; without it the tests are skipped, or fail where CI promises that it is there."""
    place = shutil.which("chromium")
    if place is None:
        _missing("no browser: there is no chromium on the path")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("no playwright: pip install exhume[dev]")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=place, args=_BROWSER_OPTIONS)
        yield started
        started.close()
