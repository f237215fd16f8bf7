"""Run folders keep the whole data set."""

import pytest
import torch

from exhume import data
from exhume.data import Dataset
from exhume.errors import FileError
from exhume.run_folder import RunFolder


def test_every_part_of_a_data_set_comes_back(tmp_path):
    sphere = data.load("sphere", dim=6, samples=3, subspace_dim=2)
    saved = {
        "picture": data.load("digits", samples=4),
        "table": data.load("diabetes", samples=4),
        "subspace": sphere,
        "labels of non-members": sphere.with_non_members(data.load("sphere", dim=6, samples=5, seed=1)),
        "no labels": Dataset.of(sphere.inputs),
        "no samples": Dataset.without_samples(7),
    }
    for name, dataset in saved.items():
        folder = RunFolder(tmp_path / name)
        folder.save_secret(dataset)
        again = folder.load_secret()
        for field, value in vars(dataset).items():
            found = getattr(again, field)
            assert torch.equal(found, value) if isinstance(value, torch.Tensor) else found == value, (name, field)


def test_the_folder_of_an_audit_names_the_command_that_tries_other_attacks(tmp_path):
    (tmp_path / "audit.json").write_text("{}")
    with pytest.raises(FileError, match="--method NAME"):
        RunFolder(tmp_path).load_target()
