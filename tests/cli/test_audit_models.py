"""`exhume audit` of models as people write them: they print, are in half precision, on no device, or read tokens."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

sys.path.append(str(Path(__file__).parents[1] / "auditing"))
from auditing_models import FACTORY, SAMPLES, write_probe

WORDS = ["--weights", "after.safetensors", "--initial", "zero", "--input-shape", "12", "--num-samples", str(SAMPLES)]
VARIANTS = f"""{FACTORY}
import os


class Printing(nn.Sequential):
    def forward(self, inputs):
        print("forward")
        return super().forward(inputs)


def printing():
    print("building")
    os.system("echo from a program")
    return Printing(*build())


def half():
    return build().half()


def brain():
    return build().to(torch.bfloat16)


def meta():
    with torch.device("meta"):
        return build()


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(30, 8), nn.Linear(8, 2)

    def forward(self, tokens):
        return self.head(self.table(tokens).mean(1))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_probe(tmp_path)
    (tmp_path / "variants.py").write_text(VARIANTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_a_model_prints_goes_to_standard_error(folder):
    """In a process of its own: programs print to the file descriptor, which pytest has replaced in this one."""
    words = [sys.executable, "-m", "exhume", "audit", "--model", "variants.py:printing", *WORDS, "--json", "--quiet"]
    words += ["--method", "descent", "--budget-passes", "10"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["outcome"] == "inconclusive"
    assert {"building", "from a program", "forward"} <= set(done.stderr.splitlines())


@pytest.mark.parametrize(("factory", "dtype"), [("half", "float16"), ("brain", "bfloat16")])
def test_a_model_in_half_precision_is_run_in_float32(folder, exhume_json, factory, dtype):
    code, value = exhume_json("audit", "--model", f"variants.py:{factory}", *WORDS)
    assert code == 0
    assert value["outcome"] == "recovered"  # the weights of the file were not rounded
    assert any(f"in {dtype}; it was run in float32" in note for note in value["notes"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "variants.py:meta", *WORDS], "is on the meta device"),
        (["--model", "variants.py:Tokens", "--input-shape", "5", "--num-samples", "2"], "'table' is an embedding"),
    ],
)
def test_models_that_cannot_be_attacked_are_refused_in_one_line(folder, exhume_command, words, message):
    code, out, err = exhume_command("audit", *words)
    assert (code, out) == (2, "")
    (line,) = err.strip().splitlines()
    assert message in line


def test_a_folder_as_transformers_writes_it_is_accepted_as_weights(folder, exhume_json, exhume_command):
    model = folder / "released"
    model.mkdir()
    save_file(load_file(folder / "after.safetensors"), model / "model.safetensors")
    words = ["audit", "--model", "mymodel.py:build", "--weights", model, *WORDS[2:]]
    code, _, err = exhume_command(*words)
    assert code == 2
    assert "is a folder without config.json and model.safetensors" in err
    (model / "config.json").write_text("{}")
    code, value = exhume_json(*words)
    assert code == 0
    assert value["outcome"] == "recovered"
    started = folder / "started"
    started.mkdir()
    save_file({"0.0.weight": torch.zeros(1)}, started / "model.safetensors")
    (started / "config.json").write_text("{}")
    code, _, err = exhume_command(*words, "--initial", started)  # read as weights, not searched for checkpoints
    assert code == 2
    assert "the initial state dict has no '1.weight'" in err


def test_the_evidence_that_is_asked_for_is_written(folder, exhume_command):
    words = ["audit", "--model", "mymodel.py:build", *WORDS, "--sarif", "a.sarif", "--junit", "a.xml"]
    code, _, err = exhume_command(*words, "--records", "a.csv")
    assert code == 0, err
    assert json.loads(Path("a.sarif").read_text())["runs"][0]["results"][0]["ruleId"] == "EXH001"
    assert "<failure" in Path("a.xml").read_text()
    assert len(Path("a.csv").read_text().splitlines()) == SAMPLES + 1
    code, _, err = exhume_command(*words, "--records", "none/a.csv")
    assert code == 2
    assert "none/a.csv" in err
