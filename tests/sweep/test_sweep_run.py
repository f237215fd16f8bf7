"""A sweep loses no cell, computes none twice, and continues after a failed cell."""

from collections import Counter

import fake_experiments
import pytest
from distributed import CancelledError, Client, Future, LocalCluster
from fake_experiments import cells_of

from exhume.errors import ExhumeError, FileError, InputError
from exhume.sweep import cluster
from exhume.sweep.run import _progress, run_sweep
from exhume.sweep.store import Counts, Store


def threads_of_this_process(workers):
    quiet = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    return LocalCluster(n_workers=workers, processes=False, protocol="tcp://", host="127.0.0.1", scheduler_kwargs=quiet)


def test_every_cell_is_computed_once_and_kept(run, store):
    cells = cells_of()
    counts = run(cells)
    assert (counts.total, counts.done, counts.failed, counts.waiting) == (4, 4, 0, 0)
    assert counts.seconds > 0
    for cell, record in zip(cells, store.records("a"), strict=True):
        assert record.outcome.target == cell.key
        assert record.read_pictures() == b"pictures of " + cell.key.encode()
        assert record.worker.startswith("tcp://127.0.0.1:")
        assert set(record.versions) == {"exhume", "torch", "python"}


def test_finished_cells_are_not_computed_again(run, journal):
    run(cells_of(2), fake_experiments.marked)
    counts = run(cells_of(3), fake_experiments.marked)
    assert counts.done == 3
    assert set(Counter((word, key) for word, key, _ in journal()).values()) == {1}
    # Nothing waits: no cluster is even asked for.
    assert run(cells_of(3), workers="tcp://127.0.0.1:1").done == 3


def test_cells_that_sweeps_share_are_computed_once(run, store, journal):
    run(cells_of(ratio=[1, 2]), fake_experiments.quick_and_marked)
    counts = run(cells_of(ratio=[2, 3]), fake_experiments.quick_and_marked, sweep="b")
    assert counts.done == 8
    assert len(store.records()) == 12
    assert len(journal()) == len({key for _, key, _ in journal()}) == 12


def test_a_run_may_hold_the_lock_of_its_caller(run, store):
    cells = cells_of()
    with store.locked():
        store.register("b", cells[:1])
        assert run(cells).done == 4
    assert (store.counts("a").done, store.counts("b").done) == (4, 1)


def test_failed_cells_are_kept_and_retried_on_request_only(run, store, journal):
    counts = run(cells_of(), fake_experiments.odd_seeds_fail)
    assert (counts.done, counts.failed) == (2, 2)
    assert store.records("a")[1].error == "InputError: seed is 1; valid: even ones"
    counts = run(cells_of(), fake_experiments.quick_and_marked)
    assert (counts.failed, journal()) == (2, [])
    counts = run(cells_of(), fake_experiments.quick_and_marked, retry_failed=True)
    assert (counts.done, counts.failed, len(journal())) == (4, 0, 2)


def test_a_run_that_cannot_start_leaves_failed_cells_and_their_errors(run, store, monkeypatch):
    monkeypatch.setattr(cluster, "_ANSWER", 0.5)
    run(cells_of(2), fake_experiments.odd_seeds_fail)
    for workers in ("tcp://127.0.0.1:9", "garbage", 0):
        with pytest.raises(InputError, match="scheduler|workers"):
            run(cells_of(2), retry_failed=True, workers=workers)
        assert store.records("a")[1].error == "InputError: seed is 1; valid: even ones"
    assert run(cells_of(2), retry_failed=True).done == 2
    with pytest.raises(InputError, match="workers is 0"):  # also if nothing waits
        run(cells_of(2), workers=0)


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


def test_the_time_left_is_the_mean_time_of_a_cell_for_those_that_are_left():
    counts = Counts(total=10, done=3, failed=1, waiting=6, seconds=30.0)
    assert _progress(counts, running=2, threads=2, latest="").seconds_left == pytest.approx(6 * 10 / 2)
    assert _progress(counts, running=0, threads=0, latest="").seconds_left == pytest.approx(60)
    assert _progress(Counts(4, 0, 0, 4, 0.0), running=2, threads=2, latest="").seconds_left is None


def test_a_full_disk_ends_the_run_and_what_is_finished_stays(run, store):
    (pages,) = store._read("PRAGMA page_count")[0]
    store._read(f"PRAGMA max_page_count = {pages + 40}")  # 160 kB: three of the pictures
    with pytest.raises(FileError, match=f"cannot write {store.path}: database or disk is full; what it holds is"):
        run(cells_of(10), fake_experiments.with_big_pictures)
    assert store._read("PRAGMA integrity_check") == [("ok",)]
    done = store.counts("a").done
    assert 1 <= done < 10
    store._read("PRAGMA max_page_count = 1000000")
    counts = run(cells_of(10), fake_experiments.with_big_pictures)
    assert (counts.done, counts.failed) == (10, 0)


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
        run(cells_of(), workers="tcp://127.0.0.1:9")
    with pytest.raises(InputError, match="scheduler is 'localhost'; valid: an address such as tcp://"):
        run(cells_of(), workers="localhost")
    with threads_of_this_process(0) as empty, pytest.raises(InputError, match="has no worker; start one with `dask"):
        run(cells_of(), workers=empty.scheduler_address)
    with pytest.raises(InputError, match="workers is 2, but those of tcp://.* are started elsewhere"):
        cluster.workers_of("tcp://127.0.0.1:9", 2)
    with pytest.raises(InputError, match="workers is 0; valid: a whole number of at least 1"):
        run(cells_of(), workers=0)


def test_workers_of_another_version_are_refused(run, monkeypatch):
    monkeypatch.setattr(Client, "run", lambda self, function: {"tcp://far:1": {"exhume": "9.9", "torch": "2"}})
    with pytest.raises(InputError, match=r"worker tcp://far:1 has exhume 9.9; valid: "):
        run(cells_of())


def test_a_scheduler_that_goes_away_ends_the_run_and_what_is_finished_stays(run, store):
    def close_after_the_first(event):
        if event.done == 1:
            temporary.close()

    with threads_of_this_process(1) as temporary, pytest.raises(ExhumeError, match="the scheduler .* run again"):
        run(cells_of(6), fake_experiments.slow, workers=temporary.scheduler_address, progress=close_after_the_first)
    assert 1 <= store.counts("a").done < 6
    assert run(cells_of(6)).done == 6


@pytest.mark.parametrize(("read", "ended"), [("exception", False), ("result", True)])
def test_a_scheduler_that_goes_away_while_a_result_is_read_fails_no_cell(run, store, monkeypatch, read, ended):
    def lost(self):
        if ended:
            raise CancelledError("lost")
        return CancelledError("lost")

    monkeypatch.setattr(Future, read, lost)
    with pytest.raises(ExhumeError, match="the scheduler is gone.* run again"):
        run(cells_of(2))
    assert (store.counts("a").done, store.counts("a").failed) == (0, 0)
