"""The store: what is finished stays finished, and sweeps share cells."""

import fake_experiments
import pytest
from stored_cells import CELLS, KEYS, finish, states

from exhume.errors import InputError
from exhume.sweep.store import Store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sweep.sqlite"


@pytest.fixture
def store(path):
    with Store(path) as opened:
        opened.register("a", CELLS)
        yield opened


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
    assert record.read_pictures() == finished.pictures  # also after the store was closed


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


def test_failed_cells_keep_their_error_and_wait_again_on_request(store):
    store.fail(CELLS[1].key, "InputError: no", seconds=0.5)
    assert states(store)[1] == "failed"
    assert store.records("a")[1].error == "InputError: no"
    store.register("a", CELLS)
    assert states(store)[1] == "failed"
    assert store.retry("a") == 1
    assert (states(store)[1], store.records("a")[1].error) == ("waiting", None)
    assert finish(store, CELLS[1])
    assert states(store)[1] == "done"


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


def test_counts_say_how_far_a_sweep_is(store):
    finish(store, CELLS[0])
    finish(store, CELLS[3])
    store.fail(CELLS[1].key, "no", seconds=9.0)
    counts = store.counts("a")
    assert (counts.total, counts.done, counts.failed, counts.waiting) == (6, 2, 1, 3)
    assert counts.seconds == 3.0  # of the done ones
    assert set(counts.to_json()) == {"total", "done", "failed", "waiting", "seconds"}


def test_unknown_sweeps_and_cells_are_named(store):
    with pytest.raises(InputError, match="no sweep 'z'; valid: a"):
        store.records("z")
    with pytest.raises(InputError, match="no sweep 'z'"):
        store.counts("z")
    with pytest.raises(InputError, match="no cell has the key 'z'"):
        store.fail("z", "no")


def test_a_transaction_that_does_not_end_well_leaves_nothing(store):
    def half_of_it():
        with store._transaction() as connection:
            connection.execute("UPDATE cells SET state = 'failed'")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half_of_it()
    assert states(store) == ["waiting"] * 6
    assert finish(store, CELLS[0])  # and does not stand in the way of the next
