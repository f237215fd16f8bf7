"""`torchrun -m exhume attack`: two processes give the result of one; a killed process leaves a checkpoint."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import exhume
from exhume.support.files import read_metadata, read_tensors

DIM, SAMPLES, FEATURES = 130, 3, 1950
RUN = ("--data", "sphere", "--dim", DIM, "--samples", SAMPLES, "--features", FEATURES)
PATIENCE = 600  # seconds after which it must have ended, however busy the machine is

# The command, with a checkpoint at every step; rank 1 ends by SIGKILL in the middle of its search.
TO_BE_KILLED = f"""
import os
from exhume.support import distributed as sharding
from exhume.support import checkpoint
from exhume.cli import main

checkpoint.EVERY_SECONDS = 0.0
sums, whole = 0, sharding.Processes.sum

def counted_sum(self, part):
    global sums
    sums += 1
    if self.rank == 1 and sums == 150:
        os.kill(os.getpid(), {int(signal.SIGKILL)})
    return whole(self, part)

sharding.Processes.sum = counted_sum
main()
"""


def torchrun(*words):
    """Two processes on this machine, which meet at a free port."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run(
        [*launcher, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env=environment,
    )


def result_in(run):
    told = json.loads((run / "exact" / "result.json").read_text())
    return read_tensors(run / "exact" / "reconstruction.safetensors")["samples"], told


@pytest.fixture
def answer_of_one(exhume_command, tmp_path):
    """A run folder without results, and the samples that one process recovers from it with their error bars."""
    run = tmp_path / "run"
    assert exhume_command("train", "rf", *RUN, "--out", run)[0] == 0
    assert exhume_command("attack", run)[0] == 0
    samples, told = result_in(run)
    for file in (run / "exact").iterdir():
        file.unlink()
    bars = 10 * torch.tensor(told["certificate"]["predicted_errors"]) * samples.norm(dim=1)
    return run, samples, bars


def assert_same(samples, expected, bars):
    """The same samples in any order: rounding differs between one process and two, and the search amplifies it."""
    gaps, nearest = torch.cdist(expected.double(), samples.double()).min(1)
    assert nearest.unique().numel() == len(expected) == len(samples)
    assert bool((gaps <= bars).all()), (gaps, bars)


def test_two_processes_recover_what_one_does_and_each_holds_half_of_the_matrix(answer_of_one):
    run, expected, bars = answer_of_one
    done = torchrun("-m", "exhume", "attack", run, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)  # the first process alone prints
    samples, saved = result_in(run)
    assert_same(samples, expected, bars)
    assert told["certificate"]["verdict"] == saved["certificate"]["verdict"] == "exact"
    evidence = saved["evidence"]
    assert evidence["ranks"] == 2
    assert sum(evidence["coordinates_of_ranks"]) == FEATURES
    assert evidence["bytes_of_ranks"] == [4 * DIM * width for width in evidence["coordinates_of_ranks"]]
    assert max(evidence["coordinates_of_ranks"]) <= 0.55 * FEATURES
    assert sorted(file.name for file in (run / "exact").iterdir()) == ["reconstruction.safetensors", "result.json"]


def test_a_killed_process_ends_the_run_with_a_sentence_and_one_process_resumes_it(
    answer_of_one, exhume_command, tmp_path
):
    run, expected, bars = answer_of_one
    script = tmp_path / "to_be_killed.py"
    script.write_text(TO_BE_KILLED)
    ended = torchrun(script, "attack", run)  # it returns: nobody waits for the lost one
    assert ended.returncode != 0
    assert f"exitcode  : {-signal.SIGKILL}" in ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: rank ")
    assert "--resume" in line
    assert f'File "{Path(exhume.__file__).parent}' not in ended.stderr  # no traceback through the package
    checkpoint = run / "exact" / "checkpoint.safetensors"
    reached = json.loads(read_metadata(checkpoint)["numbers"])["session"]
    assert reached["steps"] > 0
    assert [file.name for file in checkpoint.parent.iterdir()] == [checkpoint.name]
    code, _, err = exhume_command("attack", run, "--resume")
    assert code == 0, err
    samples, told = result_in(run)
    assert_same(samples, expected, bars)
    assert told["history"]["passes"][: reached["steps"]] == pytest.approx(
        [work / (SAMPLES * FEATURES * DIM) for work in reached["history"]["work"][: reached["steps"]]]
    )  # it went on from there
