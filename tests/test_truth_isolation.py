"""The attack never sees the truth: changing or deleting it changes nothing."""

from dataclasses import replace

import pytest
import torch

from exhume import Recipe, data
from exhume.attacks import ATTACKS, reconstruct
from exhume.cli.train import write_run
from exhume.networks import TwoLayer
from exhume.run_folder import RunFolder
from exhume.support.files import read_tensors
from exhume.victims import RandomFeatures, train

# Attacks that read more than the head of a network.
NETWORKS = ("layers", "unmix", "replay")
# What an attack must know of its victim.
KNOWN = {
    "subspace": {"subspace": torch.eye(12)},
    "replay": {"recipe": Recipe(loss="square", learning_rate=1e-3, steps=6), "labels": torch.ones(3)},
}


@pytest.fixture
def folder(tmp_path, method):
    training = data.load("sphere", dim=12, samples=3, seed=0)
    if method in NETWORKS:
        victim = train(TwoLayer(12, 300, 1, "relu"), training.inputs, training.labels[:, None], stable=True)
    else:
        victim = RandomFeatures(num_features=300).fit(training.inputs, training.labels)
    write_run(RunFolder(tmp_path), victim, training)
    return RunFolder(tmp_path)


@pytest.mark.parametrize("method", sorted(ATTACKS))
def test_reconstruction_is_bit_identical_without_the_truth(folder, method):
    def attack():
        result = reconstruct(folder.load_target().assuming(**KNOWN.get(method, {})), method=method, max_passes=1000)
        result.save(folder.attack(method))
        return read_tensors(folder.attack(method) / "reconstruction.safetensors")

    def assert_same(again):
        assert again.keys() == original.keys()
        for name, tensor in original.items():
            assert torch.equal(again[name], tensor), name

    original = attack()
    secret = folder.load_secret()
    folder.save_secret(replace(secret, inputs=secret.inputs + 1, labels=-secret.labels, protocol="another"))
    assert_same(attack())
    (folder.path / "secret.safetensors").unlink()
    assert_same(attack())
