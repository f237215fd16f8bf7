"""The file of a store is intact after a kill or a full disk, refuses foreign files, and has one writer at a time."""

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
from stored_cells import CELLS, KEYS, finish, states

from exhume.errors import FileError
from exhume.sweep.run import run_sweep
from exhume.sweep.store import Store

# Changes to the process (a limit, a signal) are made in a copy of it.
FORK = multiprocessing.get_context("fork")
UNFINISHED = Path(__file__).parents[1] / "fixtures" / "0.1.0" / "unfinished_sweep.sqlite"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sweep.sqlite"


@pytest.fixture
def store(path):
    with Store(path) as opened:
        opened.register("a", CELLS)
        yield opened


def lock(path):
    with Store(path) as store, store.locked():
        pass


def is_intact(path):
    with sqlite3.connect(path) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def killed_while_writing(path, begun):
    with Store(path) as store, store._transaction() as connection:
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
    with pytest.raises(FileError, match="schema 7; this exhume reads schema 1 and 2"):
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
        with store._transaction() as connection:
            connection.execute("UPDATE cells SET state = 'failed'")
            with Store(path, create=False) as reader:
                assert states(reader) == ["waiting"] * 6  # as it was before the transaction
        with Store(path, create=False) as reader:
            assert states(reader) == ["failed"] * 6
    lock(path)


def test_a_store_of_version_0_1_0_is_read_and_goes_on(path, in_process_scheduler):
    """Its sweep `small` has two cells done, two failed, one started by a run that was killed, and one waiting."""
    path.write_bytes(UNFINISHED.read_bytes())
    with Store(path) as store:
        before = store.records("small")
        assert [record.state for record in before] == ["done", "failed", "done", "failed", "waiting", "waiting"]
        assert [record.outcome.recovered for record in before if record.outcome] == [2, 2]
        assert before[1].error.startswith("InputError: descent must be told how many samples")
        cells = [record.cell for record in before]
        counts = run_sweep(cells, store, sweep="small", workers=in_process_scheduler, experiment=fake_experiments.quick)
        assert (counts.done, counts.failed, counts.waiting) == (4, 2, 0)
        assert [record.outcome for record in store.records("small")[:4]] == [record.outcome for record in before[:4]]
    assert is_intact(path)
