"""The owner's data, from files and from memory."""

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from exhume import data
from exhume.auditing import Settings
from exhume.auditing.open import data_in_memory, read_data
from exhume.errors import ExhumeError, InputError

ROWS = np.arange(24, dtype=np.float32).reshape(4, 6) / 24


def given(path, **more):
    return read_data(Settings(model="m.py:build", truth=path, **({"input_shape": (6,)} | more)))


def test_arrays_are_taken_as_they_are(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    np.savez(tmp_path / "both.npz", x=ROWS, y=np.array([1.0, -1, 1, -1]))
    save_file({"x": torch.from_numpy(ROWS)}, tmp_path / "x.safetensors")
    for name in ("x.npy", "both.npz", "x.safetensors"):
        assert torch.equal(given(tmp_path / name).inputs, torch.from_numpy(ROWS)), name
    assert not given(tmp_path / "x.npy").is_labelled
    assert given(tmp_path / "both.npz").labels.tolist() == [1, -1, 1, -1]


def test_pictures_of_a_folder_are_normalised_as_the_attacker_knows(tmp_path):
    pixels = np.full((4, 4), 255, dtype=np.uint8)
    pixels[0, 0] = 0
    Image.fromarray(pixels).save(tmp_path / "a.png")
    know = {"pixel_mean": 0.5, "pixel_std": 0.25}
    found = given(tmp_path, input_shape=(1, 4, 4), know=know)
    assert found.inputs[0].tolist() == [-2.0] + [2.0] * 15
    assert torch.allclose(found.picture.to_pictures(found.inputs)[0, 0], torch.from_numpy(pixels / 255).float())


@pytest.mark.parametrize("classes", [False, True])
def test_a_folder_of_pictures_has_labels_only_if_it_has_classes(tmp_path, classes):
    for name in ("cat", "dog", "emu"):
        place = tmp_path / name if classes else tmp_path
        place.mkdir(exist_ok=True)
        Image.fromarray(np.full((4, 4), 90, dtype=np.uint8)).save(place / f"{name}.png")
    found = given(tmp_path, input_shape=(1, 4, 4)).fitted_to(16, 3)
    assert found.labels.tolist() == (torch.eye(3).tolist() if classes else [])


def test_a_label_column_is_taken_as_it_is_or_by_its_names(tmp_path):
    (tmp_path / "numbers.csv").write_text("a,b,y\n1,2,0\n3,4,1\n5,7,1\n")
    (tmp_path / "names.csv").write_text("a,b,y\n1,2,no\n3,4,yes\n5,7,yes\n")
    for name in ("numbers.csv", "names.csv"):
        found = given(tmp_path / name, input_shape=(2,), label_column="y").fitted_to(2, 2)
        assert found.labels.tolist() == [[1, 0], [0, 1], [0, 1]], name
    with pytest.raises(InputError, match="label-column"):
        given(tmp_path / "numbers.csv", input_shape=(2,)).fitted_to(2, 2)


def test_columns_of_a_table_keep_their_names_and_units(tmp_path):
    (tmp_path / "t.csv").write_text("age (years),bmi,risk\n30,20,1\n40,22,2\n50,27,3\n")
    found = given(tmp_path / "t.csv", input_shape=(2,), standardise="subset", label_column="risk")
    assert [(column.name, column.unit) for column in found.table.columns] == [("age", "years"), ("bmi", "")]
    assert torch.allclose(found.table.to_records(found.inputs)[:, 0], torch.tensor([30.0, 40, 50]).double(), atol=1e-4)
    assert len(found.labels) == 3


def test_a_data_set_of_exhume_brings_pictures_and_non_members():
    digits = data.load("digits", samples=4)
    found = data_in_memory(digits, None, None, None)
    assert found.picture == digits.picture
    assert torch.equal(found.non_members, digits.non_members)
    instead = data_in_memory(digits, -digits.labels, digits.inputs + 1, np.ones(4))
    assert torch.equal(instead.labels, -digits.labels)
    assert torch.equal(instead.non_members, digits.inputs + 1)
    assert instead.non_member_labels.tolist() == [1, 1, 1, 1]


def test_held_out_data_alone_and_no_data_at_all(tmp_path):
    np.savez(tmp_path / "both.npz", x=ROWS, y=np.array([1.0, -1, 1, -1]))
    found = given(None, held_out=tmp_path / "both.npz")
    assert (found.num_samples, found.input_dim, len(found.non_members)) == (0, 6, 4)
    assert found.non_member_labels.tolist() == [1, -1, 1, -1]
    assert given(None) is None
    assert data_in_memory(None, None, None, None) is None


def test_held_out_records_are_standardised_as_the_training_records_were(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n0,20\n2,22\n4,27\n")
    (tmp_path / "h.csv").write_text("a,b\n2,20\n6,27\n")
    found = given(tmp_path / "t.csv", input_shape=(2,), standardise="subset", held_out=tmp_path / "h.csv")
    assert found.table.to_records(found.non_members)[:, 0].tolist() == pytest.approx([2, 6], abs=1e-5)


def test_labels_without_samples_are_refused(tmp_path):
    with pytest.raises(InputError, match="labels are given without truth"):
        given(None, labels=tmp_path / "y.npy")


@pytest.mark.parametrize("name", ["x.pkl", "x.txt", "missing.npy", "missing.csv"])
def test_other_files_are_refused_with_what_is_valid(tmp_path, name):
    if "missing" not in name:
        (tmp_path / name).write_bytes(b"\x80\x04.")
    with pytest.raises(ExhumeError, match=f"{name}.*(valid|does not exist)"):
        given(tmp_path / name)


def test_a_file_above_the_limit_is_not_opened(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    with pytest.raises(InputError, match="--max-size"):
        given(tmp_path / "x.npy", max_size="100B")
