"""The store: what is finished stays finished, whatever happens to the process, the disk or the file."""

import json
import multiprocessing
import os
import resource
import signal
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import fake_experiments
import pytest

from exhume.errors import FileError, InputError
from exhume.sweep import Finished, Grid
from exhume.sweep.store import Store

CELLS = Grid(data="sphere", ratio=[1, 2], attack="exact", seeds=3).cells()
KEYS = [cell.key for cell in CELLS]
# Changes to the process (a limit, a signal) are made in a copy of it.
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sweep.sqlite"


@pytest.fixture
def store(path):
    with Store(path) as opened:
        opened.register("a", CELLS)
        yield opened


def finish(store, cell, **changes):
    about = {"seconds": 1.5, "worker": "tcp://w", "versions": {"exhume": "0", "torch": "2"}}
    return store.finish(cell.key, Finished(outcome=fake_experiments.outcome(cell, **changes)), **about)


def states(store, sweep="a"):
    return [record.state for record in store.records(sweep)]


def lock(path):
    with Store(path) as store, store.locked():
        pass


def is_intact(path):
    with sqlite3.connect(path) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_new_cells_wait_in_the_order_of_the_sweep(store):
    assert [record.cell.key for record in store.records("a")] == KEYS
    assert states(store) == ["waiting"] * 6
    assert store.records("a")[0].cell == CELLS[0]


def test_a_finished_cell_is_read_back_as_it_was(store, path):
    finished = fake_experiments.quick(CELLS[2])
    assert store.finish(CELLS[2].key, finished, seconds=2.5, worker="tcp://w", versions={"exhume": "0.1"})
    with Store(path, create=False) as again:
        (record,) = again.records("a", keys=[CELLS[2].key])
    assert (record.state, record.outcome, record.error) == ("done", finished.outcome, None)
    assert (record.seconds, record.worker, record.versions) == (2.5, "tcp://w", {"exhume": "0.1"})
    assert record.finished_at.utcoffset().total_seconds() == 0
    assert record.pictures == finished.pictures  # also after the store was closed


def test_numbers_that_are_not_finite_survive(store):
    finish(store, CELLS[0], error=float("inf"), residual=float("nan"))
    outcome = store.records("a")[0].outcome
    assert outcome.error == float("inf")
    assert outcome.residual != outcome.residual


def test_a_done_cell_is_never_overwritten(store):
    assert finish(store, CELLS[0], error=0.25)
    assert not finish(store, CELLS[0], error=0.75)
    assert not store.fail(CELLS[0].key, "too late")
    (record,) = store.records(keys=KEYS[:1])
    assert (record.outcome.error, record.error, record.state) == (0.25, None, "done")
    assert store.counts("a").computed_twice == 1  # and it shows


def test_failed_cells_keep_their_error_and_wait_again_on_request(store):
    store.fail(CELLS[1].key, "InputError: no", seconds=0.5)
    assert states(store)[1] == "failed"
    assert store.records("a")[1].error == "InputError: no"
    store.register("a", CELLS)
    assert states(store)[1] == "failed"
    assert store.retry("a") == 1
    assert (states(store)[1], store.records("a")[1].error) == ("waiting", None)
    assert finish(store, CELLS[1])
    assert store.counts("a").computed_twice == 0


def test_sweeps_share_cells(store):
    finish(store, CELLS[1])
    store.register("b", CELLS[1:3])
    assert states(store, "b") == ["done", "waiting"]
    store.fail(CELLS[2].key, "no")
    assert states(store)[2] == "failed"
    assert store.sweeps() == ["a", "b"]
    assert len(store.records()) == 6


def test_a_changed_grid_takes_the_place_of_the_old_one_and_loses_nothing(store):
    finish(store, CELLS[0])
    store.register("a", CELLS[3:])
    assert states(store) == ["waiting"] * 3
    store.register("a", CELLS[:1])
    assert states(store) == ["done"]


def test_counts_tell_what_happened(store):
    for cell in CELLS[:4]:
        store.begin(cell.key, "tcp://w")
    finish(store, CELLS[0])
    store.fail(CELLS[1].key, "no")
    store.lose(CELLS[2].key, "worker tcp://w is gone")
    store.begin(CELLS[2].key, "tcp://v")
    counts = store.counts("a")
    assert (counts.total, counts.done, counts.failed, counts.waiting) == (6, 1, 1, 4)
    assert (counts.started, counts.lost, counts.computed_twice, counts.seconds) == (5, 1, 0, 1.5)
    assert store.lose_unfinished() == 2
    assert store.lose_unfinished() == 0
    assert store.counts("a").lost == 3
    store.retry("a")
    assert store.lose_unfinished() == 0


def test_unknown_sweeps_and_cells_are_named(store):
    with pytest.raises(InputError, match="no sweep 'z'; valid: a"):
        store.records("z")
    with pytest.raises(InputError, match="no sweep 'z'"):
        store.counts("z")
    with pytest.raises(InputError, match="no cell has the key 'z'"):
        store.fail("z", "no")
    with pytest.raises(FileError):
        store.begin("z", "tcp://w")


def test_a_transaction_that_does_not_end_well_leaves_nothing(store):
    def half_of_it():
        with store._database.transaction() as connection:
            connection.execute("UPDATE cells SET state = 'failed'")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half_of_it()
    assert states(store) == ["waiting"] * 6
    assert finish(store, CELLS[0])  # and does not stand in the way of the next


def killed_while_writing(path, begun):
    with Store(path) as store, store._database.transaction() as connection:
        connection.execute("UPDATE cells SET state = 'failed'")
        # Enough to spill half of the transaction into the file.
        connection.execute("PRAGMA cache_size = 1")
        connection.executemany("UPDATE cells SET pictures = ? WHERE key = ?", [(bytes(100_000), key) for key in KEYS])
        begun.set()
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_is_finished_survives_a_kill_in_the_middle_of_a_transaction(store, path):
    finish(store, CELLS[0])
    store.close()
    begun = FORK.Event()
    process = FORK.Process(target=killed_while_writing, args=(path, begun))
    process.start()
    process.join()
    assert begun.is_set()
    assert process.exitcode == -signal.SIGKILL
    assert path.with_name(f"{path.name}-journal").exists()  # half of it was on the disk
    with Store(path, create=False) as again:
        assert states(again) == ["done"] + ["waiting"] * 5
        assert finish(again, CELLS[1])
    assert is_intact(path)


def fill_the_disk(path, answers):
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    with Store(path) as store:
        try:
            for cell in CELLS:
                store.finish(cell.key, fake_experiments.with_big_pictures(cell), seconds=1)
        except FileError as error:
            answers.put(str(error))


def test_a_full_disk_is_an_error_and_the_store_stays_intact(store, path):
    store.close()
    answers = FORK.SimpleQueue()
    process = FORK.Process(target=fill_the_disk, args=(path, answers))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert f"cannot write {path}: " in answers.get()
    assert is_intact(path)
    with Store(path) as again:
        done = states(again).count("done")
        assert 1 <= done < 6
        for record in again.records("a"):  # there is room again
            if record.state == "waiting":
                finished = fake_experiments.with_big_pictures(record.cell)
                assert again.finish(record.cell.key, finished, seconds=1)
        assert again.counts("a").done == 6


def without_rights(path, answers):
    os.setgid(65534)
    os.setuid(65534)  # nobody: chmod does not stop root
    for attempt in (lambda: Store(path / "new.sqlite"), lambda: Store(path / "sweep.sqlite").register("b", CELLS)):
        try:
            attempt()
        except FileError as error:
            answers.put(str(error))
    with Store(path / "sweep.sqlite", create=False) as store:
        answers.put(store.counts("a").total)
        try:
            with store.locked():
                pass
        except FileError as error:
            answers.put(str(error))


@pytest.fixture
def shared_folder():
    """A folder of our own that others may look into."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        if os.geteuid() != 0 or not all(parent.stat().st_mode & 0o001 for parent in folder.parents):
            pytest.skip("only root can become another user, who must reach the folder")
        yield folder


def test_a_read_only_folder_can_be_read_and_is_an_error_to_write_to(shared_folder):
    path = shared_folder / "sweep.sqlite"
    with Store(path) as store:
        store.register("a", CELLS)
    answers = FORK.SimpleQueue()
    process = FORK.Process(target=without_rights, args=(path.parent, answers))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert "new.sqlite" in answers.get()
    assert f"cannot write {path}: attempt to write a readonly database" in answers.get()
    assert answers.get() == 6
    assert "cannot open" in answers.get()
    assert is_intact(path)


def test_other_files_are_refused_and_left_alone(tmp_path):
    text = tmp_path / "notes.sqlite"
    text.write_text("not a database, but long enough to be taken for one" * 100)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    for path in (text, other):
        before = path.read_bytes()
        with pytest.raises(FileError, match=f"{path} is not a sweep store"):
            Store(path)
        assert path.read_bytes() == before
    with pytest.raises(FileError, match="none.sqlite does not exist"):
        Store(tmp_path / "none.sqlite", create=False)
    with pytest.raises(FileError, match=str(tmp_path)):
        Store(tmp_path)


def test_a_store_of_another_schema_is_named(store, path):
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(FileError, match="schema 7; this exhume reads schema 1"):
        Store(path)


def test_damage_is_found_before_a_run(store, path):
    for cell in CELLS:
        store.finish(cell.key, fake_experiments.with_big_pictures(cell), seconds=1)
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:40_960] = b"\xff" * 36_864
    path.write_bytes(content)
    with pytest.raises(FileError, match=f"{path} is (damaged|not a sweep store, or it is damaged)"):
        lock(path)
    path.write_bytes(bytes(content)[:5000])
    with pytest.raises(FileError, match=str(path)):
        lock(path)


def test_a_cell_that_this_version_cannot_read_is_named(store, path):
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE cells SET outcome = ?", (json.dumps({"colour": "red"}),))
    with Store(path) as opened, pytest.raises(FileError, match=f"cell {KEYS[0]} is not one"):
        opened.records("a")


def test_one_run_at_a_time_and_readers_meanwhile(store, path):
    with store.locked():
        with pytest.raises(FileError, match=f"another run is writing to {path}"):
            lock(path)
        with store._database.transaction() as connection:
            connection.execute("UPDATE cells SET state = 'failed'")
            with Store(path, create=False) as reader:
                assert states(reader) == ["waiting"] * 6  # as it was before the transaction
        with Store(path, create=False) as reader:
            assert states(reader) == ["failed"] * 6
    lock(path)
