"""Behaviour of the folder-of-images loader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from exhume.data import load
from exhume.errors import DataError, InputError


def save(path: Path, shade: int, size: tuple[int, int] = (4, 3)) -> None:
    """Saves a picture (width, height) of one shade of red."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color=(shade, 0, 0)).save(path)


@pytest.fixture
def classed(tmp_path: Path) -> Path:
    for place, name in enumerate(("cats", "dogs", "ants")):
        for number in range(3):
            save(tmp_path / name / f"{number}.png", 10 * place + number)
    (tmp_path / "notes").mkdir()
    (tmp_path / "readme.txt").write_text("not an image")
    return tmp_path


def reds(vectors: torch.Tensor) -> list[int]:
    return (vectors[:, 0] * 255).round().int().tolist()


def test_subfolders_are_classes_in_the_given_order(classed: Path) -> None:
    data = load("folder", path=classed, classes=("dogs", "cats"), per_class=1, standardise="none")
    assert reds(data.inputs) == [10, 0]
    assert reds(data.non_members) == [11, 1]
    assert data.labels.tolist() == [-1, 1]
    assert data.picture is not None
    assert data.picture.shape == (3, 3, 4)


def test_all_subfolders_come_alphabetically_with_one_hot_labels(classed: Path) -> None:
    data = load("folder", path=classed, standardise="none")
    assert reds(data.inputs) == [20, 21, 22, 0, 1, 2, 10, 11, 12]
    assert torch.equal(data.labels, torch.eye(3).repeat_interleave(3, dim=0))
    assert len(data.non_members) == 0


def test_flat_folder_gets_seeded_random_signs_and_says_so(tmp_path: Path) -> None:
    for number in range(40):
        save(tmp_path / f"{number:02}.png", number)
    first, again, other = (load("folder", path=tmp_path, per_class=20, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.labels, again.labels)
    assert not torch.equal(first.labels, other.labels)
    assert set(first.labels.tolist()) == {-1.0, 1.0}
    assert len(first.non_members) == 20
    assert "random labels +-1 from seed 1" in first.protocol
    with pytest.raises(InputError, match="flat"):
        load("folder", path=tmp_path, labels="one-hot")


def test_picture_content_survives(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    data = load("folder", path=tmp_path)
    assert data.picture is not None
    seen = (data.picture.to_pictures(data.inputs)[0] * 255).round().permute(1, 2, 0).numpy()
    assert np.array_equal(seen, pixels)


def test_size_averages_areas(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    data = load("folder", path=tmp_path, size=2, channels=1, standardise="none")
    expected = pixels.reshape(2, 4, 2, 4).mean(axis=(1, 3)).flatten() / 255
    # Pillow rounds to whole bytes.
    assert np.allclose(data.inputs[0].numpy(), expected, atol=0.51 / 255)


def test_different_sizes_are_refused_unless_a_size_is_given(classed: Path) -> None:
    save(classed / "cats" / "1.png", 1, size=(5, 5))
    with pytest.raises(DataError, match=r"1\.png is 5x5.*3x4"):
        load("folder", path=classed)
    assert load("folder", path=classed, size=2).input_dim == 12


def test_broken_image_is_named(classed: Path) -> None:
    (classed / "cats" / "1.png").write_bytes(b"\x89PNG\r\n\x1a\n rubbish")
    with pytest.raises(DataError, match=r"1\.png is not a readable image"):
        load("folder", path=classed)


def test_sixteen_bit_images_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 1000, dtype=np.uint16)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png.*8-bit"):
        load("folder", path=tmp_path)


def test_unclear_folders_are_refused(classed: Path, tmp_path: Path) -> None:
    save(classed / "stray.png", 0)
    with pytest.raises(DataError, match=r"stray\.png"):
        load("folder", path=classed)
    empty = tmp_path / "notes"
    with pytest.raises(DataError, match="holds no images"):
        load("folder", path=empty)
    with pytest.raises(DataError, match="is not a folder"):
        load("folder", path=tmp_path / "nowhere")


def test_too_few_images_and_wrong_options_are_named(classed: Path) -> None:
    with pytest.raises(InputError, match=r"ants.*wanted 4.*available 3"):
        load("folder", path=classed, per_class=4)
    with pytest.raises(InputError, match=r"'birds'.*ants, cats, dogs"):
        load("folder", path=classed, classes="birds")
    with pytest.raises(InputError, match="channels is 2"):
        load("folder", path=classed, channels=2)
    with pytest.raises(InputError, match="missing a required argument: 'path'"):
        load("folder")
