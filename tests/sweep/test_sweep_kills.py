"""After a sweep, a worker or a cell is killed, finished cells are kept and the others run again or elsewhere."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import dask
import fake_experiments
from distributed import Client
from fake_experiments import cells_of

from exhume.sweep.run import run_sweep

HERE = Path(__file__).parent
PATIENCE = 600  # seconds; only a broken test waits so long, however busy the machine is


def environment():
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def wait_until(true):
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


SWEEP = """
import sys
import fake_experiments
from pathlib import Path
from exhume.sweep import Grid
from exhume.sweep.run import run_sweep
from exhume.sweep.store import Store

if __name__ == "__main__":
    cells = Grid(data="sphere", ratio=2, attack="exact", seeds=40).cells()
    with Store(Path(sys.argv[1])) as store:
        run_sweep(cells, store, sweep="a", workers=1, experiment=fake_experiments.marked)
"""


def test_a_killed_sweep_goes_on_where_it_was(run, store, journal, tmp_path):
    script = tmp_path / "sweep.py"
    script.write_text(SWEEP)
    sweep = subprocess.Popen([sys.executable, str(script), str(store.path)], env=environment())
    wait_until(lambda: sum(word == "computed" for word, _, _ in journal()) >= 3 or sweep.poll() is not None)
    worker = _workers_below(sweep.pid)
    sweep.send_signal(signal.SIGKILL)
    assert sweep.wait() == -signal.SIGKILL
    wait_until(lambda: not any(map(_alive, worker)))  # no orphan goes on computing
    with sqlite3.connect(store.path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    done = {record.cell.key for record in store.records("a") if record.state == "done"}
    before = journal()
    assert len(done) >= 2
    assert done <= {key for word, key, _ in before if word == "computed"}
    counts = run(cells_of(40), fake_experiments.quick_and_marked)
    assert (counts.done, counts.waiting, counts.failed) == (40, 0, 0)
    starts = Counter(key for word, key, _ in journal() if word == "started")
    assert set(starts) == {cell.key for cell in cells_of(40)}
    assert not done & {key for key, times in starts.items() if times > 1}
    assert starts.total() <= 40 + 1  # only the one under way is computed again


def _workers_below(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children")
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    assert children.exists()
    return [int(child) for task in tasks for child in task.read_text().split()]


def _alive(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@contextmanager
def started(*words):
    """A process of its own, killed in the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_cells_of_a_killed_worker_go_elsewhere(run, store, journal, tmp_path):
    """A real scheduler and two workers, each a process, on loopback; one worker is killed in mid-sweep."""
    address = tmp_path / "scheduler.json"
    loopback = ("--host", "127.0.0.1", "--no-dashboard")
    scheduler = ("distributed.cli.dask_scheduler", *loopback, "--port", "0", "--dashboard-address", "127.0.0.1:0")
    worker = ("distributed.cli.dask_worker", *loopback, "--no-nanny", "--nthreads", "1", "--scheduler-file")
    folder = ("--local-directory", str(tmp_path))
    with (
        started(*scheduler, "--scheduler-file", str(address)),
        started(*worker, str(address), *folder, "--name", "first") as first,
        started(*worker, str(address), *folder, "--name", "second"),
    ):
        wait_until(address.exists)
        with Client(scheduler_file=str(address), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=PATIENCE)
            where = client.scheduler.address
            named = {info["name"]: url for url, info in client.scheduler_info()["workers"].items()}
        killed = []

        def kill_the_first(_):
            """When all that it has computed is stored and it is computing another cell."""
            mine = [(word, key) for word, key, worker in journal() if worker == named["first"]]
            computed = {key for word, key in mine if word == "computed"}
            stored = {record.cell.key for record in store.records("a") if record.worker == named["first"]}
            if not killed and 1 <= len(computed) < len(mine) / 2 and computed == stored:
                first.send_signal(signal.SIGKILL)
                killed.append(first.wait())

        counts = run(cells_of(16), fake_experiments.marked, workers=where, progress=kill_the_first)
    assert killed == [-signal.SIGKILL]
    assert (counts.total, counts.done, counts.failed) == (16, 16, 0)
    starts = Counter(key for word, key, _ in journal() if word == "started")
    # Computed again: the cell that it was computing, and one that it may have finished since it was looked at.
    assert starts.total() <= 16 + 2
    assert {key for word, key, _ in journal() if word == "computed"} == {cell.key for cell in cells_of(16)}
    finished = Counter(record.worker for record in store.records("a"))
    assert set(finished) == set(named.values())
    assert finished[named["second"]] > finished[named["first"]] > 0


def test_a_cell_that_kills_its_worker_fails_alone_and_the_embedded_cluster_recovers(store):
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        counts = run_sweep(
            cells_of(3), store, sweep="a", workers=1, experiment=fake_experiments.seed_1_kills_its_worker
        )
    assert (counts.done, counts.failed, counts.waiting) == (2, 1, 0)
    assert store.records("a")[1].error == "its worker died (out of memory, or killed), 1 times"
    for record in (store.records("a")[0], store.records("a")[2]):
        assert record.outcome.steps == record.outcome.passes == 1  # threads of torch, and of OpenMP
