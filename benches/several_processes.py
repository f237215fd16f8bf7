"""One process compared with two that share the coordinates, one core each: error, passes, seconds, bytes of V."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import exhume
from benches.problems import say, signed_error, sphere_problem, table
from exhume.data import Dataset
from exhume.run_folder import RunFolder

# (d, n, p / dn)
PROBLEMS = ((100, 50, 5), (1000, 10, 5))


def run(dim: int, samples: int, ratio: float, ranks: int) -> tuple[Any, ...]:
    """Attacks the problem with the given number of processes, by the same commands as a user."""
    training, victim = sphere_problem(dim, samples, ratio, seed=0)
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place) / "run")
        folder.save_target(victim.target(knowledge=exhume.Knowledge(num_samples=samples)))
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        words = [sys.executable, *launcher, "-m", "exhume", "attack", str(folder.path), "--json"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)
        row = row_of(json.loads(done.stdout), folder.load_result("exact"), training, ratio)
    say(f"d = {dim}, n = {samples}, {ranks} processes: {row}")
    return (f"d = {dim}, n = {samples}, p = {ratio}dn", ranks, *row)


def row_of(told: dict[str, Any], result: exhume.Reconstruction, training: Dataset, ratio: float) -> tuple[str, ...]:
    """Verdict, error, passes, seconds, and the largest part of V that a process held."""
    whole = 4 * int(ratio * training.inputs.numel()) * training.inputs.shape[1]
    held = max(told["evidence"].get("bytes_of_ranks", [whole]))
    error = signed_error(result, training)
    return (
        result.certificate.verdict,
        f"{error:.1e}",
        f"{result.passes:.0f}",
        f"{result.seconds:.1f}",
        f"{held / 1e6:.1f}",
    )


def main() -> None:
    rows = [run(*problem, ranks) for problem in PROBLEMS for ranks in (1, 2)]
    table(("problem", "processes", "verdict", "signed error", "passes", "seconds", "MB of V each"), rows)
