"""Behaviour of the .npy and .npz loader."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from exhume.data import load
from exhume.errors import DataError, InputError

NUMBERS = np.random.default_rng(0).normal(3, 2, (10, 12))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.npy"
    np.save(path, NUMBERS)
    return path


def test_rows_are_taken_as_they_are_and_split_in_order(file: Path) -> None:
    data = load("arrays", path=file, samples=6)
    assert torch.equal(data.inputs, torch.from_numpy(NUMBERS[:6]).float())
    assert torch.equal(data.non_members, torch.from_numpy(NUMBERS[6:]).float())
    assert data.picture is None
    assert len(load("arrays", path=file).non_members) == 0


def test_missing_labels_are_seeded_random_signs_and_told(file: Path) -> None:
    first, again = (load("arrays", path=file, seed=5) for _ in range(2))
    assert torch.equal(first.labels, again.labels)
    assert set(first.labels.tolist()) <= {-1.0, 1.0}
    assert "random labels +-1 from seed 5" in first.protocol


@pytest.mark.parametrize("keys", [("x", "y"), ("inputs", "labels")])
def test_archive_labels_are_read(tmp_path: Path, keys: tuple[str, str]) -> None:
    path = tmp_path / "own.npz"
    labels = np.arange(10) % 2 + 4
    np.savez(path, **{keys[0]: NUMBERS, keys[1]: labels})
    assert load("arrays", path=path, samples=3).labels.tolist() == [4, 5, 4]
    assert load("arrays", path=path, samples=3, labels="sign").labels.tolist() == [-1, 1, -1]
    assert load("arrays", path=path, samples=3, labels="one-hot").labels.tolist() == [[1, 0], [0, 1], [1, 0]]


def test_byte_pictures_become_pixels(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 3, 2, 2), dtype=np.uint8)
    np.save(tmp_path / "own.npy", pixels)
    data = load("arrays", path=tmp_path / "own.npy", standardise="subset", samples=2)
    assert data.picture is not None
    seen = data.picture.to_pictures(data.inputs)
    torch.testing.assert_close(seen, torch.from_numpy(pixels[:2]).float() / 255, atol=1e-6, rtol=0)
    assert float(data.inputs.double().std()) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("standardise", ["none", "subset"])
def test_values_beyond_pixels_are_stretched_into_view(file: Path, standardise: str) -> None:
    data = load("arrays", path=file, shape=(3, 2, 2), standardise=standardise)
    assert data.picture is not None
    seen = data.picture.to_pictures(data.inputs).flatten(1)
    expected = (NUMBERS - NUMBERS.min()) / (NUMBERS.max() - NUMBERS.min())
    torch.testing.assert_close(seen, torch.from_numpy(expected).float(), atol=1e-5, rtol=0)
    assert "as black" in data.protocol


def test_sphere_norm_is_applied_and_told(file: Path) -> None:
    data = load("arrays", path=file, norm="sphere")
    torch.testing.assert_close(data.inputs.norm(dim=1), torch.full((10,), 12**0.5))
    assert "rescaled" in data.protocol


class Harmless:
    pass


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.array([[Harmless()]], dtype=object), "without pickles"),
        (np.array([["a"]]), "real numbers"),
        (np.array([[1j]]), "real numbers"),
        (np.array([[np.nan]]), "NaN"),
        (np.array([[1e300]]), "beyond float32"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
    ],
)
def test_unusable_arrays_are_refused(tmp_path: Path, content: np.ndarray, message: str) -> None:
    np.save(tmp_path / "own.npy", content, allow_pickle=True)
    with pytest.raises(DataError, match=message):
        load("arrays", path=tmp_path / "own.npy")


def test_damaged_files_are_named(tmp_path: Path, file: Path) -> None:
    content = file.read_bytes()
    for name, damaged in (("cut.npy", content[:-9]), ("cut.npz", b"PK\x03\x04 rubbish"), ("own.npz", pickle.dumps(1))):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(DataError, match=name):
            load("arrays", path=tmp_path / name)
    with pytest.raises(DataError, match="does not exist"):
        load("arrays", path=tmp_path / "nowhere.npy")


def test_unusable_archives_and_options_are_refused(tmp_path: Path, file: Path) -> None:
    np.savez(tmp_path / "a.npz", pictures=NUMBERS)
    with pytest.raises(DataError, match="holds pictures; valid"):
        load("arrays", path=tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=NUMBERS, y=np.zeros(9))
    with pytest.raises(DataError, match=r"labels of shape \(9,\)"):
        load("arrays", path=tmp_path / "b.npz")
    with pytest.raises(InputError, match="wanted 11, available 10"):
        load("arrays", path=file, samples=11)
    with pytest.raises(InputError, match=r"shape is \(3, 2, 3\).*12 numbers"):
        load("arrays", path=file, shape=(3, 2, 3))
    with pytest.raises(InputError, match="no labels"):
        load("arrays", path=file, labels="sign")
    with pytest.raises(InputError, match=r"\.csv"):
        load("arrays", path=tmp_path / "a.csv")
