"""Only the run that wrote a checkpoint can resume from it."""

import pytest
import torch

from exhume.errors import FileError
from exhume.support import checkpoint as checkpoints
from exhume.support import files
from exhume.support.checkpoint import Checkpoint, fingerprint
from exhume.support.distributed import Processes

STATE = {"rows": torch.arange(6.0).reshape(2, 3)}, {"step": 3, "losses": [1.0, 0.5]}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "state.safetensors"
    Checkpoint(path, "mine").save(*STATE)
    return path


def test_the_state_comes_back(path):
    tensors, numbers = Checkpoint(path, "mine", resume=True).load()
    assert torch.equal(tensors["rows"], STATE[0]["rows"])
    assert numbers == STATE[1]


def test_nothing_is_loaded_unless_a_run_is_resumed(path, tmp_path):
    assert Checkpoint(path, "mine").load() is None
    assert Checkpoint(tmp_path / "none", "mine", resume=True).load() is None
    assert Checkpoint(None, "mine", resume=True).load() is None


def test_another_run_is_refused(path):
    with pytest.raises(FileError, match="belongs to another run.*leave out --resume"):
        Checkpoint(path, "yours", resume=True).load()


@pytest.mark.parametrize("metadata", [None, {"format": "1", "fingerprint": "mine", "numbers": "{}"}])
def test_another_format_is_refused(path, metadata):
    files.write_tensors(path, STATE[0], metadata)
    with pytest.raises(FileError, match="not a checkpoint of this version of exhume"):
        Checkpoint(path, "mine", resume=True).load()


def test_a_damaged_file_is_refused(path):
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(FileError, match="not a readable safetensors file"):
        Checkpoint(path, "mine", resume=True).load()


def test_it_is_due_when_the_last_save_is_long_ago(path, monkeypatch):
    assert not Checkpoint(path).due
    monkeypatch.setattr(checkpoints, "EVERY_SECONDS", 0.0)
    assert Checkpoint(path).due
    assert not Checkpoint(None).due
    assert not Checkpoint(path, processes=Processes(1, 2)).due


def test_only_the_first_process_writes(tmp_path):
    Checkpoint(tmp_path / "state", processes=Processes(1, 2)).save(*STATE)
    assert not (tmp_path / "state").exists()


def test_a_fingerprint_tells_settings_and_tensors_apart():
    rows = torch.ones(2, 3)
    same = fingerprint({"a": 1, "b": 2}, [rows])
    assert same == fingerprint({"b": 2, "a": 1}, [rows.clone()])
    others = [
        fingerprint({"a": 1, "b": 3}, [rows]),
        fingerprint({"a": 1, "b": 2}, [rows.T]),
        fingerprint({"a": 1, "b": 2}, [rows.double()]),
        fingerprint({"a": 1, "b": 2}, [2 * rows]),
        fingerprint({"a": 1, "b": 2}),
    ]
    assert len({same, *others}) == 6
