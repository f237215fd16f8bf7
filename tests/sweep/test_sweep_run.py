"""Running sweeps: nothing is lost, nothing is computed twice, and one bad cell or worker stops no other."""

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
import pytest
from distributed import Client, LocalCluster

from exhume.errors import ExhumeError, FileError, InputError
from exhume.sweep import Grid, cluster
from exhume.sweep.run import run_sweep
from exhume.sweep.store import Store
from exhume.sweep.time_left import TimeLeft

HERE = Path(__file__).parent
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)}
PATIENCE = 120  # seconds; only a broken test waits so long


def cells_of(seeds=4, ratio=2):
    return Grid(data="sphere", ratio=ratio, attack="exact", seeds=seeds).cells()


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
    monkeypatch.setitem(ENVIRONMENT, fake_experiments.JOURNAL, str(path))
    return lambda: [tuple(line.split()) for line in path.read_text().splitlines()]


def threads_of_this_process(workers):
    quiet = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    return LocalCluster(n_workers=workers, processes=False, protocol="tcp://", host="127.0.0.1", scheduler_kwargs=quiet)


def wait_until(true):
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_every_cell_is_computed_once_and_kept(run, store):
    cells = cells_of()
    counts = run(cells)
    assert (counts.total, counts.done, counts.started, counts.computed_twice, counts.lost) == (4, 4, 4, 0, 0)
    for cell, record in zip(cells, store.records("a"), strict=True):
        assert record.outcome.target == cell.key
        assert record.pictures == b"pictures of " + cell.key.encode()
        assert record.worker.startswith("tcp://127.0.0.1:")
        assert set(record.versions) == {"exhume", "torch", "python"}


def test_finished_cells_are_not_computed_again(run, journal):
    run(cells_of(2), fake_experiments.marked)
    counts = run(cells_of(3), fake_experiments.marked)
    assert (counts.done, counts.started) == (3, 3)
    assert set(Counter(journal()).values()) == {1}
    # Nothing waits: no cluster is even asked for.
    assert run(cells_of(3), scheduler="tcp://127.0.0.1:1").done == 3


def test_cells_that_sweeps_share_are_computed_once(run, store):
    run(cells_of(ratio=[1, 2]))
    counts = run(cells_of(ratio=[2, 3]), sweep="b")
    assert (counts.done, counts.started) == (8, 8)
    assert len(store.records()) == 12
    started = "SELECT COUNT(*), COUNT(DISTINCT key) FROM events WHERE event = 'started'"
    assert store._database.read(started) == [(12, 12)]


def test_parts_of_a_sweep_are_sweeps_of_their_own(run, store):
    cells = cells_of()
    assert run(cells, parts={"b": cells[:1], "c": cells[1:]}).done == 4
    assert (store.counts("b").done, store.counts("c").done) == (1, 3)


def test_failed_cells_are_kept_and_retried_on_request_only(run, store):
    counts = run(cells_of(), fake_experiments.odd_seeds_fail)
    assert (counts.done, counts.failed) == (2, 2)
    assert store.records("a")[1].error == "InputError: seed is 1; valid: even ones"
    counts = run(cells_of())
    assert (counts.failed, counts.started) == (2, 4)
    counts = run(cells_of(), retry_failed=True)
    assert (counts.done, counts.failed, counts.started, counts.computed_twice) == (4, 0, 6, 0)


def test_a_run_that_cannot_start_leaves_failed_cells_and_their_errors(run, store, monkeypatch):
    monkeypatch.setattr(cluster, "_ANSWER", 0.5)
    run(cells_of(2), fake_experiments.odd_seeds_fail)
    for where in ({"scheduler": "tcp://127.0.0.1:9"}, {"scheduler": "garbage"}, {"scheduler": None, "workers": 0}):
        with pytest.raises(InputError, match="scheduler|workers"):
            run(cells_of(2), retry_failed=True, **where)
        assert store.records("a")[1].error == "InputError: seed is 1; valid: even ones"
    run(cells_of(2), retry_failed=True)
    retried = store._database.read("SELECT detail FROM events WHERE event = 'retried'")
    assert retried == [("InputError: seed is 1; valid: even ones",)]
    with pytest.raises(InputError, match="workers is 0"):  # also if nothing waits
        run(cells_of(2), scheduler=None, workers=0)


def test_an_error_that_no_one_foresaw_is_kept_with_its_traceback(run, store):
    counts = run(cells_of(), fake_experiments.seed_1_is_a_bug)
    assert (counts.done, counts.failed) == (3, 1)
    first, *more = store.records("a")[1].error.splitlines()
    assert first == "ZeroDivisionError: division by zero"
    assert any("seed_1_is_a_bug" in line for line in more)


def test_progress_counts_up_and_estimates(run):
    events = []
    run(cells_of(), fake_experiments.slow, progress=events.append)
    assert [event.done for event in events] == sorted(event.done for event in events)
    last = events[-1]
    assert (last.total, last.done, last.failed, last.running, last.workers) == (4, 4, 0, 0, 2)
    assert last.seconds_left == 0
    assert events[0].seconds_left is None
    assert any(event.seconds_left for event in events)
    assert sum(event.latest.startswith("done: exact on rf, sphere") for event in events) == 4


def test_time_left_goes_by_the_most_similar_cells():
    slow, quick = cells_of(ratio=9), cells_of(ratio=1)
    left = TimeLeft()
    assert left.seconds([], 1) is None
    for cell in (*slow[1:], *quick[1:]):
        left.expect(cell)
    left.learn(slow[0], 100)
    assert left.seconds([], 2) == pytest.approx(300)  # six like the only one known
    left.learn(quick[0], 1)
    assert left.seconds([], 2) == pytest.approx((300 + 3) / 2)
    assert left.seconds([(slow[1], 60.0)], 2) == pytest.approx((40 + 200 + 3) / 2)
    assert left.seconds([(quick[1], 5.0)], 1) == pytest.approx(300 + 2 + 5)  # overdue: as long again
    assert left.seconds([], 1000) == pytest.approx(100)  # no cell is split
    left.expect(slow[1], -1)
    assert left.seconds([], 1) == pytest.approx(203)


def test_a_full_disk_ends_the_run_and_what_is_finished_stays(run, store):
    (pages,) = store._database.read("PRAGMA page_count")[0]
    store._database.read(f"PRAGMA max_page_count = {pages + 40}")  # 160 kB: three of the pictures
    with pytest.raises(FileError, match=f"cannot write {store.path}: database or disk is full; what it holds is"):
        run(cells_of(10), fake_experiments.with_big_pictures)
    assert store._database.read("PRAGMA integrity_check") == [("ok",)]
    done = store.counts("a").done
    assert 1 <= done < 10
    store._database.read("PRAGMA max_page_count = 1000000")
    counts = run(cells_of(10), fake_experiments.with_big_pictures)
    assert (counts.done, counts.computed_twice) == (10, 0)


def test_two_runs_of_one_store_are_refused(run, store):
    attempts = []

    def attempt_another(_):
        if not attempts:
            with pytest.raises(FileError, match="another run is writing") as caught, Store(store.path) as second:
                run_sweep(cells_of(), second, sweep="b", experiment=fake_experiments.quick)
            attempts.append(caught.value)

    assert run(cells_of(), progress=attempt_another).done == 4
    assert attempts
    assert store.sweeps() == ["a"]


def test_schedulers_that_cannot_be_used_are_named(run, monkeypatch):
    monkeypatch.setattr(cluster, "_ANSWER", 0.5)
    monkeypatch.setattr(cluster, "_FIRST_WORKER", 0.2)
    with pytest.raises(InputError, match="no scheduler answers at tcp://127.0.0.1:9"):
        run(cells_of(), scheduler="tcp://127.0.0.1:9")
    with pytest.raises(InputError, match="scheduler is 'localhost'; valid: an address such as tcp://"):
        run(cells_of(), scheduler="localhost")
    with threads_of_this_process(0) as empty, pytest.raises(InputError, match="has no worker; start one with `dask"):
        run(cells_of(), scheduler=empty.scheduler_address)
    with pytest.raises(InputError, match="workers is 2, but those of tcp://.* are started elsewhere"):
        run(cells_of(), workers=2)
    with pytest.raises(InputError, match="workers is 0; valid: a whole number of at least 1"):
        run(cells_of(), workers=0, scheduler=None)


def test_workers_of_another_version_are_refused(run, monkeypatch):
    monkeypatch.setattr(Client, "run", lambda self, function: {"tcp://far:1": {"exhume": "9.9", "torch": "2"}})
    with pytest.raises(InputError, match=r"worker tcp://far:1 has exhume 9.9; valid: "):
        run(cells_of())


def test_a_scheduler_that_goes_away_ends_the_run_and_what_is_finished_stays(run, store):
    def close_after_the_first(event):
        if event.done == 1:
            temporary.close()

    with threads_of_this_process(1) as temporary, pytest.raises(ExhumeError, match="the scheduler .* run again"):
        run(cells_of(6), fake_experiments.slow, scheduler=temporary.scheduler_address, progress=close_after_the_first)
    assert 1 <= store.counts("a").done < 6
    assert run(cells_of(6)).done == 6


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
    sweep = subprocess.Popen([sys.executable, str(script), str(store.path)], env=ENVIRONMENT)
    wait_until(lambda: sum(word == "computed" for word, _ in journal()) >= 3 or sweep.poll() is not None)
    worker = _workers_below(sweep.pid)
    sweep.send_signal(signal.SIGKILL)
    assert sweep.wait() == -signal.SIGKILL
    wait_until(lambda: not any(map(_alive, worker)))  # no orphan goes on computing
    with sqlite3.connect(store.path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    done = {record.cell.key for record in store.records("a") if record.state == "done"}
    before = journal()
    assert len(done) >= 2
    assert done <= {key for word, key in before if word == "computed"}
    counts = run(cells_of(40))
    assert (counts.done, counts.waiting, counts.failed, counts.computed_twice) == (40, 0, 0, 0)
    assert counts.started == 40 + counts.lost
    assert counts.lost <= 1  # the one that was under way
    again = store._database.read("SELECT key FROM events WHERE event = 'started' GROUP BY key HAVING COUNT(*) > 1")
    assert not done & {key for (key,) in again}


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
        [sys.executable, "-m", *words], env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
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
            """When it has computed a cell and is computing another."""
            mine = "SELECT state FROM events JOIN cells USING (key) WHERE event = 'started' AND detail = ?"
            at_work = {("done",), ("waiting",)} <= set(store._database.read(mine, (named["first"],)))
            if not killed and at_work:
                first.send_signal(signal.SIGKILL)
                killed.append(first.wait())

        counts = run(cells_of(16), fake_experiments.marked, scheduler=where, progress=kill_the_first)
    assert killed == [-signal.SIGKILL]
    assert (counts.total, counts.done, counts.failed, counts.computed_twice) == (16, 16, 0, 0)
    assert counts.started == 16 + counts.lost
    assert counts.lost <= 1  # the one that it was computing
    assert {key for word, key in journal() if word == "computed"} == {cell.key for cell in cells_of(16)}
    finished = Counter(record.worker for record in store.records("a"))
    assert set(finished) == set(named.values())
    assert finished[named["second"]] > finished[named["first"]] > 0


def test_a_cell_that_kills_its_worker_fails_alone_and_the_embedded_cluster_recovers(store):
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        counts = run_sweep(
            cells_of(3), store, sweep="a", workers=1, experiment=fake_experiments.seed_1_kills_its_worker
        )
    assert (counts.done, counts.failed, counts.waiting) == (2, 1, 0)
    assert store.records("a")[1].error == "its worker died (out of memory, or killed); taken up 1 times"
    for record in (store.records("a")[0], store.records("a")[2]):
        assert record.outcome.steps == record.outcome.passes == 1  # threads of torch, and of OpenMP
