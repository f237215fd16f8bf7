"""An attack killed with SIGKILL resumes to the answer it would have had."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from exhume.files import read_tensors

# One row an attack: options that make it run for a few seconds on a victim too narrow to be solved.
ATTACKS = {
    "descent": ("--option", "max_steps=1000", "--option", "tolerance=0"),
    "exact": ("--option", "max_starts=1", "--budget-passes", "2500"),
    "kkt": ("--option", "max_steps=1000", "--option", "tolerance=0", "--option", "sample_rate=0.001"),
    "ntk": ("--option", "max_steps=1000", "--option", "tolerance=0"),
    "subspace": ("--option", "max_starts=1", "--option", "dim=30", "--budget-passes", "2500"),
}


def command(folder, method, *more):
    code = "import exhume.attacks.checkpoint as c; c.EVERY_SECONDS = 0.2; from exhume.cli import main; main()"
    return [sys.executable, "-c", code, "attack", str(folder), "--method", method, *ATTACKS[method], *more]


@pytest.mark.parametrize("method", sorted(ATTACKS))
def test_killed_attack_resumes_to_the_same_answer(exhume_command, tmp_path, method):
    small_run = tmp_path / "run"
    exhume_command("train", "rf", "--dim", 30, "--samples", 12, "--ratio", 1.2, "--out", small_run)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def finish(*more):
        subprocess.run(command(small_run, method, *more), env=environment, check=False)
        result = json.loads((small_run / method / "result.json").read_text())
        return read_tensors(small_run / method / "reconstruction.safetensors"), result

    whole, whole_result = finish()
    for name in ("result.json", "reconstruction.safetensors"):
        (small_run / method / name).unlink()
    checkpoint = small_run / method / "checkpoint.safetensors"
    running = subprocess.Popen(command(small_run, method), env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    assert checkpoint.exists()
    assert not (small_run / method / "result.json").exists()
    resumed, resumed_result = finish("--resume")
    assert not checkpoint.exists()
    for name, tensor in whole.items():
        assert torch.equal(resumed[name], tensor), name
    for key in ("steps", "passes", "stop", "history"):
        assert resumed_result[key] == whole_result[key]
