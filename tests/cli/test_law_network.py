"""`exhume law --model`: equations of all layers of a user's network."""

import json

import pytest

MODEL = """
from torch import nn


def build():
    return nn.Sequential(nn.Linear(8, 40), nn.ReLU(), nn.Linear(40, 3))
"""


@pytest.fixture
def model(tmp_path):
    """The name of a factory."""
    path = tmp_path / "mymodel.py"
    path.write_text(MODEL, encoding="utf-8")
    return f"{path}:build"


def test_all_layers_are_counted(exhume_command, model):
    code, out, err = exhume_command("law", "--model", model, "--input-shape", "8", "--samples", 4)
    assert (code, err) == (0, "")
    assert "483 weights, 32 unknown numbers of 4 samples" in out
    assert "possible; about 5,000 starts at most" in out
    assert "15.1 equations per unknown" in out
    assert "These are counts of equations." in out


def test_the_activation_is_read_off_the_network_unless_it_is_stated(exhume_command, tmp_path):
    (tmp_path / "smooth.py").write_text(MODEL.replace("ReLU", "GELU"), encoding="utf-8")
    options = ("--model", f"{tmp_path / 'smooth.py'}:build", "--input-shape", "8", "--samples", 4)
    _, out, _ = exhume_command("law", *options)
    assert "possible, approximately: the activation is smooth" in out
    assert "(exact)              123 equations, 44 unknowns: " in out
    assert "binds" not in out
    _, stated, _ = exhume_command("law", *options, "--activation", "relu")
    assert "of each sample " in stated
    assert "which binds" in stated


def test_json_has_the_counts_of_every_layer(exhume_command, model):
    _, out, _ = exhume_command("law", "--model", model, "--input-shape", "8", "--samples", 4, "--json")
    counted = json.loads(out)
    assert counted["num_parameters"] == 483
    assert counted["spans"] == ["0"]
    assert [layer["largest_samples"] for layer in counted["layers"]] == [7, 2]
    assert counted["unmix"]["possible"] is True
    assert counted["unmix"]["exact"] is True
    assert (counted["head"]["equations"], counted["head"]["binding"]) == (123, "per sample")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--samples", 4), "--model needs --input-shape"),
        (("--input-shape", "8"), "--model needs --input-shape"),
        (("--input-shape", "8,x", "--samples", 4), "--input-shape"),
        (("--input-shape", "9", "--samples", 4), "forward pass"),
        (("--input-shape", "8", "--samples", 4, "--dim", 8), "does not take --dim"),
    ],
)
def test_what_is_missing_or_wrong_is_named(exhume_command, model, options, message):
    code, out, err = exhume_command("law", "--model", model, *options)
    assert (code, out) == (2, "")
    assert message in err
