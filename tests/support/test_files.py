"""Files survive crashes, and files of other formats are refused."""

import io
import itertools
import multiprocessing
import os
import pickle

import numpy as np
import pytest
import torch

from exhume.errors import FileError
from exhume.support import files


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.safetensors"


def test_tensors_and_metadata_come_back(path):
    files.write_tensors(path, {"a": torch.arange(6.0).reshape(2, 3).T}, {"why": "test"})
    assert torch.equal(files.read_tensors(path)["a"], torch.arange(6.0).reshape(2, 3).T)
    assert files.read_metadata(path) == {"why": "test"}


def _replace_for_ever(path):
    for length in itertools.count():
        files.write_tensors(path, {"a": torch.zeros(3 + length % 50)}, {"length": "1" * (length % 40)})


def test_metadata_can_be_read_while_another_process_replaces_the_file(path):
    files.write_tensors(path, {"a": torch.zeros(3)}, {"length": ""})
    writer = multiprocessing.get_context("fork").Process(target=_replace_for_ever, args=(path,))
    writer.start()
    try:
        lengths = {len(files.read_metadata(path)["length"]) for _ in range(2000)}
    finally:
        writer.kill()
        writer.join()
    assert len(lengths) > 1


def test_truncated_file_is_refused(path):
    files.write_tensors(path, {"a": torch.ones(100)})
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(FileError, match="truncated or damaged"):
        files.read_tensors(path)


class _Boom:
    def __reduce__(self):
        return (os.mkdir, ("should-never-exist",))


@pytest.mark.parametrize(
    "save", [lambda path: path.write_bytes(pickle.dumps(_Boom())), lambda path: torch.save({}, path)]
)
def test_pickles_are_refused_and_not_run(path, save, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(path)
    with pytest.raises(FileError, match="pickle"):
        files.read_tensors(path)
    assert not (tmp_path / "should-never-exist").exists()


def test_headers_of_every_length_are_read(path):
    for length in range(0, 512, 8):  # one of them has the low byte that opens a pickle
        files.write_tensors(path, {"x": torch.ones(1)}, {"padding": "a" * length})
        assert torch.equal(files.read_tensors(path)["x"], torch.ones(1))


def test_missing_file_is_named(path):
    with pytest.raises(FileError, match="does not exist"):
        files.read_tensors(path)


def test_failed_write_keeps_the_last_good_file_and_leaves_nothing_behind(path):
    files.write_bytes(path, b"good")

    def fail_half_way(temporary):
        temporary.write_bytes(b"ba")
        raise OSError("No space left on device")

    with pytest.raises(FileError, match="No space left"):
        files.write_atomically(path, fail_half_way)
    assert path.read_bytes() == b"good"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_unwritable_folder_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FileError, match="cannot write"):
        files.write_json(tmp_path / "file" / "x.json", {"a": 1})


@pytest.mark.parametrize("content", ["{", "[1]", "\xff"])
def test_broken_json_is_refused(tmp_path, content):
    (tmp_path / "x.json").write_text(content, encoding="latin-1")
    with pytest.raises(FileError, match=r"x\.json"):
        files.read_json(tmp_path / "x.json")


def test_arrays_are_read_in_their_precision(tmp_path):
    for kind, read in (("<f4", torch.float32), (">f8", torch.float64), ("<i2", torch.int64), ("|b1", torch.int64)):
        np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3).astype(kind))
        array = files.read_npy(tmp_path / "a.npy")
        assert array.dtype == read
        assert array.shape == (2, 3)


def test_arrays_that_are_none_are_refused(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.ones(100))
    whole = path.read_bytes()
    claims_more = whole.replace(b"(100,)", b"(9999999999,)".ljust(13))[: len(whole)]
    pickled = io.BytesIO()
    np.save(pickled, np.array([{}], dtype=object), allow_pickle=True)
    for content in (b"", b"abc", whole[:50], whole[:-8], claims_more, pickled.getvalue()):
        path.write_bytes(content)
        with pytest.raises(FileError, match="not a readable numpy file"):
            files.read_npy(path)
    np.save(path, np.array(["a", "b"]))
    with pytest.raises(FileError, match="real numbers"):
        files.read_npy(path)
    with pytest.raises(FileError, match="does not exist"):
        files.read_npy(tmp_path / "none.npy")


def test_a_tensor_is_read_by_its_name_or_because_it_is_the_only_one(tmp_path):
    path = tmp_path / "a.safetensors"
    files.write_tensors(path, {"x": torch.ones(2)})
    assert files.read_tensor(path, "samples").shape == (2,)
    files.write_tensors(path, {"x": torch.ones(2), "samples": torch.ones(3)})
    assert files.read_tensor(path, "samples").shape == (3,)
    with pytest.raises(FileError, match="holds samples, x; valid: one tensor, or one named labels"):
        files.read_tensor(path, "labels")
