"""A small run for the command line."""

import shutil

import pytest


@pytest.fixture(scope="session")
def trained_run(exhume_command, tmp_path_factory):
    """Makes the run folder of random features trained on the data that the words describe; once for the same words."""
    folders = {}

    def train(*words):
        if words not in folders:
            folders[words] = tmp_path_factory.mktemp("trained") / "run"
            code, _, err = exhume_command("train", "rf", *words, "--out", folders[words])
            assert code == 0, err
        return folders[words]

    return train


SMALL = ("--data", "sphere", "--dim", 20, "--samples", 2, "--ratio", 60)


@pytest.fixture
def small_run(trained_run, tmp_path):
    """A run folder with a tiny victim."""
    return shutil.copytree(trained_run(*SMALL), tmp_path / "run")


@pytest.fixture(scope="session")
def attacked_once(trained_run, exhume_command, tmp_path_factory):
    """The same with the result of the attack `exact`; not to be changed."""
    folder = shutil.copytree(trained_run(*SMALL), tmp_path_factory.mktemp("attacked") / "run")
    code, _, err = exhume_command("attack", folder)
    assert code == 0, err
    return folder


@pytest.fixture
def attacked_run(attacked_once, tmp_path):
    """A run folder with a tiny victim and the result of the attack `exact`."""
    return shutil.copytree(attacked_once, tmp_path / "run")
