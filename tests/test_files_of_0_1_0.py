"""Files that version 0.1.0 wrote still load, and hold the numbers that it wrote.

`tests/fixtures/0.1.0` was made by commands of that version: `run` by `train rf` on 3 samples of the sphere, `attack`
with one sample and the norm known, `score`, and a `descent` that was interrupted; `network` by `train two-layer` and
`attack --method subspace`; `audit` by `audit --run run --defence noise`; `sweep.sqlite` by `sweep run` of 4 cells.
"""

import csv
import json
import math
import shutil
from pathlib import Path

import pytest
import torch

import exhume
from exhume.run_folder import RunFolder

FILES = Path(__file__).parent / "fixtures" / "0.1.0"


@pytest.fixture
def files(tmp_path):
    """A copy that commands may write to."""
    return shutil.copytree(FILES, tmp_path / "files")


def relative_change(new, old):
    return float((new - old).norm() / old.norm())


def printed(exhume_command, *words):
    """What a command prints as JSON."""
    code, out, err = exhume_command(*words, "--json")
    assert code == 0, err
    return json.loads(out)


def test_a_run_folder(files):
    folder = RunFolder(files / "run")
    target, result = folder.load_target(), folder.load_result("exact")
    assert (target.num_parameters, target.features.input_dim) == (144, 6)
    assert target.knowledge == exhume.Knowledge(num_samples=3)
    assert result.target == target.fingerprint
    assert (result.stop, result.certificate.verdict, result.passes) == (exhume.Stop.CONVERGED, "exact", 658.0)
    assert (result.seed, result.signs_determined, result.norms_determined) == (1, True, True)
    assert result.history["loss"][-1] < 1e-12
    assert result.knowledge.num_samples == 3
    assert result.knowledge.norm == pytest.approx(math.sqrt(6))
    truth = folder.load_secret().inputs
    assert torch.equal(result.knowledge.samples, truth[:1])
    assert relative_change(result.samples, truth[1:]) < 1e-6


def test_the_target_of_a_run_folder_is_attacked_with_the_same_outcome(files):
    folder = RunFolder(files / "run")
    old = folder.load_result("exact")
    target = folder.load_target().with_knowledge(old.knowledge)
    new = exhume.reconstruct(target, seed=1)
    assert new.certificate.verdict == "exact"
    distances = torch.cdist(new.samples.double(), old.samples.double())
    assert distances.min(1).values.max() < 1e-5


def test_a_score(files, exhume_command):
    score = printed(exhume_command, "score", files / "run")
    assert (score["recovered"], score["num_samples"]) == (2, 2)
    assert score["error"] == pytest.approx(3.96876893571374e-08, rel=0.5)


def test_a_run_folder_of_a_network(files):
    folder = RunFolder(files / "network")
    target, result = folder.load_target(), folder.load_result("subspace")
    assert (target.num_parameters, target.knowledge.initial_head, target.knowledge.initial_body) == (
        60,
        "known",
        "known",
    )
    assert result.target == target.fingerprint
    assert tuple(result.samples.shape) == (2, 8)
    truth = torch.nn.functional.normalize(folder.load_secret().inputs) * math.sqrt(8)
    distances = torch.cdist(result.samples.double(), truth.double())
    assert distances.min(1).values.max() < 0.01
    assert exhume.reconstruct(target, num_samples=2, method="subspace", max_passes=300).certificate.verdict != "failed"


def test_an_interrupted_attack_is_refused_in_a_sentence(files, exhume_command):
    command = ("attack", files / "run", "--method", "descent", "--num-samples", 3, "--option", "max_steps=1000")
    code, _, err = exhume_command(*command, "--resume")
    assert code == 2
    assert "checkpoint.safetensors is not a checkpoint of this version of exhume" in err
    assert "leave out --resume to start anew" in err


def test_an_audit_folder(files, exhume_command):
    printed(exhume_command, "report", files / "audit")
    page = (files / "audit" / "report.html").read_text()
    assert "all 3 training samples were recovered" in page
    assert "noise 30%" in page


def test_a_sweep_store(files, exhume_command):
    sweep = printed(exhume_command, "sweep", "status", files / "sweep.sqlite")["sweeps"][0]
    assert (sweep["total"], sweep["done"], sweep["failed"]) == (4, 4, 0)
    assert sorted(line["settings"]["ratio"] for line in sweep["lines"]) == [2.0, 8.0]
    assert sorted(line["error"] for line in sweep["lines"]) == pytest.approx([2.060272e-08, 7.206014e-08], rel=1e-4)
    assert exhume_command("sweep", "export", files / "sweep.sqlite", "--out", files / "table.csv")[0] == 0
    with (files / "table.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert [row["state"] for row in rows] == ["done"] * 4
    assert [int(row["outcome.recovered"]) for row in rows] == [2] * 4
