"""An attack killed with SIGKILL resumes and gives the same result as an uninterrupted one."""

import json
import multiprocessing
import signal
import time
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from exhume import attacks, cli
from exhume.cli import attack as attack_command
from exhume.support import checkpoint as checkpoints
from exhume.support.files import read_metadata, read_tensors

# One row an attack: options that make it take more than STEPS steps on a victim too narrow to be solved.
ATTACKS = {
    "descent": ("--option", "max_steps=200", "--option", "tolerance=0"),
    "exact": ("--option", "max_starts=1", "--budget-passes", "400"),
    "greedy": ("--option", "max_rounds=18", "--option", "starts=40"),
    "kkt": ("--option", "max_steps=150", "--option", "tolerance=0", "--option", "sample_rate=0.001"),
    "layers": ("--option", "max_starts=1", "--budget-passes", "9000"),
    "ntk": ("--option", "max_steps=150", "--option", "tolerance=0"),
    "replay": ("--recipe", "{folder}/recipe.yaml", "--know", "labels={folder}/labels.npy", "--budget-passes", "20000"),
    "subspace": ("--option", "max_starts=1", "--know", "subspace={folder}/basis.npy", "--budget-passes", "400"),
    "unmix": ("--budget-passes", "1500"),
}
# Victims, too narrow to be solved: random features, or a network for attacks that read its first layer.
FEATURES = ("rf", "--dim", 30, "--samples", 12, "--ratio", 1.2)
SPHERE = ("two-layer", "--data", "sphere", "--dim", 30, "--samples")
NETWORKS = {
    "layers": (*SPHERE, 12, "--width", 36),
    "replay": (*SPHERE, 12, "--width", 36),
    "unmix": ("two-layer", "--data", "digits", "--samples", 20, "--width", 64),  # it solves the others
}
STEPS = 12  # before the process is killed
PATIENCE = 600.0  # seconds after which it must have come so far, however busy the machine is

# Processes that are killed are children of one that has loaded exhume and done nothing else.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["exhume.cli.attack"])


def test_every_attack_has_a_row():
    assert set(ATTACKS) == set(attacks.ATTACKS)


def attack_to_be_killed(words):
    """The command, with a checkpoint at every step; after STEPS of them it waits."""
    checkpoints.EVERY_SECONDS = 0.0
    save = checkpoints.Checkpoint.save

    def save_and_wait(self, tensors, numbers):
        save(self, tensors, numbers)
        if numbers["session"]["steps"] >= STEPS:
            time.sleep(PATIENCE)

    checkpoints.Checkpoint.save = save_and_wait
    cli.app(words)


@pytest.fixture
def reports(monkeypatch):
    """What attacks in this process report of their progress."""
    seen = []

    @contextmanager
    def attack_progress(label):
        yield lambda event: seen.append((event.step, event.loss, event.passes))

    monkeypatch.setattr(attack_command, "attack_progress", attack_progress)
    return seen


def steps_in(checkpoint):
    return json.loads(read_metadata(checkpoint)["numbers"])["session"]["steps"] if checkpoint.exists() else 0


@pytest.mark.parametrize("method", sorted(ATTACKS))
def test_killed_attack_resumes_to_the_same_answer(exhume_command, reports, tmp_path, method):
    small_run = tmp_path / "run"
    exhume_command("train", *NETWORKS.get(method, FEATURES), "--out", small_run)
    np.save(tmp_path / "basis.npy", np.eye(30, dtype=np.float32))
    np.save(tmp_path / "labels.npy", np.ones(12, dtype=np.float32))
    (tmp_path / "recipe.yaml").write_text("loss: square\nlearning_rate: 1e-3\nsteps: 6\n")
    options = [option.format(folder=tmp_path) for option in ATTACKS[method]]
    words = ["attack", str(small_run), "--method", method, *options]

    def finish(*more):
        reports.clear()
        exhume_command(*words, *more)
        result = json.loads((small_run / method / "result.json").read_text())
        return read_tensors(small_run / method / "reconstruction.safetensors"), result, list(reports)

    whole, whole_result, whole_reports = finish()
    for name in ("result.json", "reconstruction.safetensors"):
        (small_run / method / name).unlink()
    checkpoint = small_run / method / "checkpoint.safetensors"
    running = PROCESSES.Process(target=attack_to_be_killed, args=(words,))
    running.start()
    deadline = time.monotonic() + PATIENCE
    while steps_in(checkpoint) < STEPS and running.is_alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    running.kill()
    running.join()
    assert running.exitcode == -signal.SIGKILL
    assert checkpoint.exists()
    assert not (small_run / method / "result.json").exists()
    resumed, resumed_result, resumed_reports = finish("--resume")
    assert not checkpoint.exists()
    for name, tensor in whole.items():
        assert torch.equal(resumed[name], tensor), name
    for key in ("steps", "passes", "stop", "history"):
        assert resumed_result[key] == whole_result[key]
    assert 0 < len(resumed_reports) < len(whole_reports)  # it did not start anew
    assert resumed_reports == whole_reports[-len(resumed_reports) :]
