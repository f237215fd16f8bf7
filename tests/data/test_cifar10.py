"""Behaviour of the CIFAR-10 loader: the paper's protocol, both official formats, damaged files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from exhume.data import load
from exhume.errors import DataError, InputError

FROG, TRUCK = 6, 9
Records = Callable[..., np.ndarray]


def binary_images(home: Path, label: int) -> torch.Tensor:
    """All images of a class in file order, pixels in [0, 1]: an independent reading of the binary batches."""
    files = sorted((home / "cifar-10-batches-bin").glob("data_batch_*.bin"))
    content = b"".join(path.read_bytes() for path in files)
    images = [content[at + 1 : at + 3073] for at in range(0, len(content), 3073) if content[at] == label]
    return torch.tensor([list(image) for image in images[:40]], dtype=torch.float64) / 255


def test_paper_protocol_on_the_real_data(real_data: Path) -> None:
    data = load("cifar10", classes=("frog", "truck"), per_class=5, home=real_data)
    pixels = torch.cat([binary_images(real_data, FROG)[:5], binary_images(real_data, TRUCK)[:5]])
    expected = (pixels - pixels.mean()) / pixels.std()
    torch.testing.assert_close(data.inputs.double(), expected, atol=1e-5, rtol=0)
    assert data.labels.tolist() == [-1.0] * 5 + [1.0] * 5
    assert float(data.inputs.double().mean()) == pytest.approx(0, abs=1e-6)
    assert float(data.inputs.double().std()) == pytest.approx(1, abs=1e-6)
    # Non-members: the next five of each, with the statistics of the members.
    others = torch.cat([binary_images(real_data, FROG)[5:10], binary_images(real_data, TRUCK)[5:10]])
    torch.testing.assert_close(data.non_members.double(), (others - pixels.mean()) / pixels.std(), atol=1e-5, rtol=0)
    assert data.picture is not None
    torch.testing.assert_close(data.picture.to_pictures(data.inputs).flatten(1).double(), pixels, atol=1e-6, rtol=0)


def test_later_batches_continue_the_earlier_ones(small_cifar: Path) -> None:
    data = load("cifar10", per_class=3, standardise="none", home=small_cifar)
    expected = torch.cat([binary_images(small_cifar, FROG)[:3], binary_images(small_cifar, TRUCK)[:3]]).float()
    torch.testing.assert_close(data.inputs, expected)
    assert len(data.non_members) == 2


def test_batches_are_read_in_the_order_of_their_numbers(small_cifar: Path, cifar_records: Records) -> None:
    folder = small_cifar / "cifar-10-batches-bin"
    (folder / "data_batch_1.bin").rename(folder / "data_batch_10.bin")
    second = torch.from_numpy(cifar_records([*range(10), *range(10)], seed=2)[FROG, 1:].copy()).float() / 255
    data = load("cifar10", classes="frog", labels="one-hot", per_class=1, standardise="none", home=small_cifar)
    torch.testing.assert_close(data.inputs[0], second)


def test_all_classes_get_the_official_one_hot_columns(small_cifar: Path) -> None:
    for every in ("all", ["all"]):
        assert torch.equal(load("cifar10", classes=every, per_class=1, home=small_cifar).labels, torch.eye(10))
    chosen = load("cifar10", classes=["truck", "cat", 0], per_class=1, home=small_cifar)
    assert chosen.labels.argmax(dim=1).tolist() == [9, 3, 0]
    assert chosen.labels.shape == (3, 10)


def test_channel_standardisation_uses_the_full_split(small_cifar: Path) -> None:
    raw = load("cifar10", per_class=2, standardise="none", home=small_cifar).inputs.reshape(4, 3, 1024)
    data = load("cifar10", per_class=2, standardise="channel", home=small_cifar)
    mean, std = (torch.tensor(numbers).view(3, 1) for numbers in ([0.4914, 0.4822, 0.4465], [0.247, 0.243, 0.261]))
    torch.testing.assert_close(data.inputs.reshape(4, 3, 1024), (raw - mean) / std, atol=1e-5, rtol=0)


def test_small_images_are_block_averages(small_cifar: Path) -> None:
    raw = load("cifar10", per_class=1, standardise="none", home=small_cifar).inputs.reshape(2, 3, 32, 32)
    data = load("cifar10", per_class=1, standardise="none", size=8, home=small_cifar)
    expected = raw.reshape(2, 3, 8, 4, 8, 4).mean(dim=(3, 5))
    torch.testing.assert_close(data.inputs.reshape(2, 3, 8, 8), expected)
    assert data.input_dim == 192
    assert "8x8" in data.protocol


def test_sphere_norm_is_applied_and_told(small_cifar: Path) -> None:
    data = load("cifar10", per_class=2, norm="sphere", home=small_cifar)
    torch.testing.assert_close(data.inputs.norm(dim=1), torch.full((4,), 3072**0.5))
    torch.testing.assert_close(data.non_members.norm(dim=1), torch.full((4,), 3072**0.5))
    assert "rescaled" in data.protocol


def test_all_samples_used_leaves_no_non_members(small_cifar: Path) -> None:
    assert load("cifar10", per_class=4, size=16, home=small_cifar).non_members.shape == (0, 768)


def test_too_few_samples_name_class_wanted_and_available(small_cifar: Path) -> None:
    with pytest.raises(InputError, match=r"frog.*wanted 5.*available 4"):
        load("cifar10", per_class=5, home=small_cifar)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": "frog,lorry"}, "'lorry'.*automobile"),
        ({"size": 12}, "12.*32, 16, 8"),
        ({"labels": "sign", "classes": "all"}, "exactly 2 classes, not 10"),
        ({"labels": "real"}, "'real'"),
        ({"standardise": "batch"}, "'batch'"),
        ({"norm": "ball"}, "'ball'"),
        ({"classes": []}, "empty"),
    ],
)
def test_impossible_options_are_refused(small_cifar: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load("cifar10", per_class=1, home=small_cifar, **options)


def test_missing_data_say_where_exhume_looked_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"exhume data --fetch cifar10.*EXHUME_DATA") as caught:
        load("cifar10", home=tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_truncated_binary_batch_is_named_and_left_alone(small_cifar: Path) -> None:
    path = small_cifar / "cifar-10-batches-bin" / "data_batch_1.bin"
    path.write_bytes(path.read_bytes()[:-1])
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"data_batch_1\.bin has 61459 bytes.*3073"):
        load("cifar10", home=small_cifar)
    assert path.read_bytes() == before


def test_label_beyond_nine_is_refused(small_cifar: Path, cifar_records: Records) -> None:
    cifar_records([6, 9, 10]).tofile(small_cifar / "cifar-10-batches-bin" / "data_batch_1.bin")
    with pytest.raises(DataError, match=r"data_batch_1\.bin: record 2 has label 10"):
        load("cifar10", per_class=1, home=small_cifar)
