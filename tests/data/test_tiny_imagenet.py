"""Behaviour of the Tiny-ImageNet loader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from exhume.data import load
from exhume.errors import DataError, InputError


def oracle_pixels(home: Path, wnid: str, numbers: range) -> torch.Tensor:
    folder = home / "tiny-imagenet-200" / "train" / wnid / "images"
    images = [Image.open(folder / f"{wnid}_{number}.JPEG").convert("RGB") for number in numbers]
    return torch.from_numpy(np.stack([np.asarray(image) for image in images])).permute(0, 3, 1, 2).float() / 255


def test_paper_classes_on_the_real_data(real_data: Path) -> None:
    data = load("tiny-imagenet", per_class=11, standardise="none", home=real_data)
    expected = torch.cat([oracle_pixels(real_data, wnid, range(11)) for wnid in ("n01641577", "n03670208")])
    assert torch.equal(data.inputs, expected.flatten(1))
    assert data.labels.tolist() == [-1.0] * 11 + [1.0] * 11
    others = torch.cat([oracle_pixels(real_data, wnid, range(11, 22)) for wnid in ("n01641577", "n03670208")])
    assert torch.equal(data.non_members, others.flatten(1))
    assert data.input_dim == 12288


def test_real_subset_is_standardised_by_scalars(real_data: Path) -> None:
    data = load("tiny-imagenet", per_class=2, home=real_data)
    assert float(data.inputs.double().mean()) == pytest.approx(0, abs=1e-6)
    assert float(data.inputs.double().std()) == pytest.approx(1, abs=1e-6)


@pytest.fixture
def small_tiny(tmp_path: Path) -> Path:
    """Three classes whose wnids.txt is not sorted; images of one shade: ten times the file number plus the class."""
    base = tmp_path / "tiny-imagenet-200"
    for place, wnid in enumerate(("n03", "n01", "n02")):
        images = base / "train" / wnid / "images"
        images.mkdir(parents=True)
        for number in (0, 2, 10):
            # Every second class is stored in greyscale, as some official images are.
            Image.new("L" if place else "RGB", (64, 64), color=0).point(lambda _, n=number, p=place: 10 * n + p).save(
                images / f"{wnid}_{number}.JPEG", quality=100
            )
    (base / "wnids.txt").write_text("n03\nn01\nn02\n")
    return tmp_path


def shades(vectors: torch.Tensor) -> list[int]:
    return (vectors.mean(dim=1) * 255).round().int().tolist()


def test_indices_count_sorted_wnids_and_files_sort_by_number(small_tiny: Path) -> None:
    data = load("tiny-imagenet", classes=(2, 0), per_class=2, standardise="none", home=small_tiny)
    assert shades(data.inputs) == [0, 20, 1, 21]
    assert shades(data.non_members) == [100, 101]
    by_name = load("tiny-imagenet", classes="n03,n01", per_class=2, standardise="none", home=small_tiny)
    assert torch.equal(by_name.inputs, data.inputs)


def test_greyscale_becomes_three_equal_channels(small_tiny: Path) -> None:
    data = load("tiny-imagenet", classes="n01", labels="one-hot", per_class=1, standardise="none", home=small_tiny)
    red, green, blue = data.inputs.reshape(3, -1)
    assert torch.equal(red, green)
    assert torch.equal(red, blue)


def test_three_classes_get_a_column_each_and_small_size(small_tiny: Path) -> None:
    data = load("tiny-imagenet", classes="all", per_class=1, size=16, home=small_tiny)
    assert torch.equal(data.labels, torch.eye(3))
    assert data.input_dim == 3 * 16 * 16


def test_too_few_images_and_unknown_classes_are_named(small_tiny: Path) -> None:
    with pytest.raises(InputError, match=r"n01.*wanted 4.*available 3"):
        load("tiny-imagenet", classes=(0, 1), per_class=4, home=small_tiny)
    with pytest.raises(InputError, match="unknown class 3"):
        load("tiny-imagenet", classes=(0, 3), per_class=1, home=small_tiny)
    with pytest.raises(InputError, match=r"size 48.*valid: 1, 2, 4, 8, 16, 32, 64"):
        load("tiny-imagenet", classes=(0, 1), per_class=1, size=48, home=small_tiny)


def test_broken_jpeg_is_named_and_left_alone(small_tiny: Path) -> None:
    path = small_tiny / "tiny-imagenet-200" / "train" / "n01" / "images" / "n01_0.JPEG"
    path.write_bytes(path.read_bytes()[:-60])
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"n01_0\.JPEG"):
        load("tiny-imagenet", classes=(0, 1), per_class=1, home=small_tiny)
    assert path.read_bytes() == before


def test_wrong_size_and_missing_class_folder_are_refused(small_tiny: Path) -> None:
    base = small_tiny / "tiny-imagenet-200"
    Image.new("RGB", (32, 32)).save(base / "train" / "n01" / "images" / "n01_0.JPEG")
    with pytest.raises(DataError, match=r"n01_0\.JPEG.*32x32"):
        load("tiny-imagenet", classes="n01", labels="one-hot", per_class=1, home=small_tiny)
    (base / "wnids.txt").write_text("n01\nn09\n")
    with pytest.raises(DataError, match="class n09"):
        load("tiny-imagenet", classes=(0, 1), per_class=1, home=small_tiny)


@pytest.mark.parametrize("content", ["", "n01\n../../secret\n", "n01\nn01\n"])
def test_damaged_class_list_is_refused(small_tiny: Path, content: str) -> None:
    (small_tiny / "tiny-imagenet-200" / "wnids.txt").write_text(content)
    with pytest.raises(DataError, match=r"wnids\.txt"):
        load("tiny-imagenet", classes=(0, 1), per_class=1, home=small_tiny)


def test_missing_data_say_where_exhume_looked(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Tiny-ImageNet .* is not in .*EXHUME_DATA") as caught:
        load("tiny-imagenet", home=tmp_path)
    assert str(tmp_path) in str(caught.value)
