"""The attack never sees the truth: changing or deleting it changes nothing."""

import pytest
import torch

from exhume import data
from exhume.attacks import ATTACKS, reconstruct
from exhume.cli.train import write_run
from exhume.files import read_tensors
from exhume.runs import RunFolder, Secret
from exhume.victims import RandomFeatures

# Settings with which an attack ends soon.
SETTINGS = {"subspace": {"dim": 12}}


@pytest.fixture
def folder(tmp_path):
    training = data.load("sphere", dim=12, samples=3, seed=0)
    write_run(RunFolder(tmp_path), RandomFeatures(num_features=300).fit(training.inputs, training.labels), training)
    return RunFolder(tmp_path)


@pytest.mark.parametrize("method", sorted(ATTACKS))
def test_reconstruction_is_bit_identical_without_the_truth(folder, method):
    def attack():
        result = reconstruct(folder.load_target(), method=method, max_passes=1000, **SETTINGS.get(method, {}))
        result.save(folder.attack(method))
        return read_tensors(folder.attack(method) / "reconstruction.safetensors")

    def assert_same(again):
        assert again.keys() == original.keys()
        for name, tensor in original.items():
            assert torch.equal(again[name], tensor), name

    original = attack()
    secret = folder.load_secret()
    folder.save_secret(Secret(secret.inputs + 1, -secret.labels, secret.non_members, secret.picture, "another"))
    assert_same(attack())
    (folder.path / "secret.safetensors").unlink()
    assert_same(attack())
