"""Ten models of different kinds in one run, one of them broken: nine reports and one clear failure."""

import json
import re

import numpy as np
import pytest
import torch
from auditing_models import DIM, write_probe
from safetensors.torch import load_file, save_file

from exhume import data
from exhume.auditing import audit_all, read_settings
from exhume.auditing.batch import folder_name, inside, load_all, report_of_all
from exhume.errors import InputError
from exhume.networks import TwoLayer
from exhume.report import page

CONVOLUTION = """
from torch import nn


def build():
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 24, 3), nn.GELU(), nn.Flatten(), nn.Linear(864, 10, bias=False)
    )
"""


def trained(module, inputs, labels, steps=200, rate=0.01):
    """Full-batch gradient descent on the square loss; the weights before and after."""
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    optimiser = torch.optim.SGD(module.parameters(), lr=rate)
    for _ in range(steps):
        loss = (module(inputs) - labels).square().sum() / len(inputs)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return before, module.state_dict()


def write_network(folder, name, network, samples=3):
    """Weights before and after training on a few points of a sphere, and the points."""
    training = data.load("sphere", dim=DIM, samples=samples, seed=1)
    labels = training.labels[:, None].expand(-1, network.num_outputs)
    before, after = trained(network, training.inputs, labels)
    save_file(before, folder / f"{name}-before.safetensors")
    save_file(after, folder / f"{name}-after.safetensors")
    np.save(folder / f"{name}-x.npy", training.inputs.numpy())


def write_convolution(folder):
    """A probe on a frozen convolution, as a torch state dict inside a checkpoint."""
    digits = data.load("digits", samples=4, labels="one-hot")
    (folder / "convolution.py").write_text(CONVOLUTION)
    namespace = {}
    exec(CONVOLUTION, namespace)
    torch.manual_seed(0)
    model = namespace["build"]()
    model[4].weight.data = (torch.linalg.pinv(model[:4](digits.inputs)) @ digits.labels).T
    torch.save({"state_dict": model.state_dict(), "epoch": 3}, folder / "convolution.pt")
    np.save(folder / "digits.npy", digits.inputs.numpy())


@pytest.fixture
def ten_models(tmp_path, exhume_command):
    for name, words in {
        "relu": "--data sphere --dim 12 --samples 3 --features 300",
        "gelu": "--data sphere --dim 12 --samples 3 --features 400 --activation gelu",
        "records": "--data diabetes --samples 4 --features 400 --activation gelu",
        "pruned": "--data sphere --dim 12 --samples 3 --features 600 --prune 0.5",
        "narrow": "--data sphere --dim 12 --samples 10 --features 60",
    }.items():
        code, _, err = exhume_command("train", "rf", *words.split(), "--out", tmp_path / name)
        assert code == 0, err
    write_probe(tmp_path)
    write_network(tmp_path, "two-layer", TwoLayer(DIM, 300, 2, seed=0))
    factory = f"from exhume.networks import TwoLayer\n\n\ndef build():\n    return TwoLayer({DIM}, 300, 2)\n"
    (tmp_path / "two_layer.py").write_text(factory)
    write_convolution(tmp_path)
    broken = load_file(tmp_path / "after.safetensors")
    broken["1.weight"][0, :5] = torch.nan
    save_file(broken, tmp_path / "broken.safetensors")
    (tmp_path / "hostile.py").write_text((tmp_path / "mymodel.py").read_text())
    path = tmp_path / "ten.yaml"
    path.write_text(
        """
budget_passes: 3000
models:
  - {run: relu}
  - {run: gelu}
  - {run: records, name: diabetes}
  - {run: pruned}
  - {run: narrow, name: too few weights}
  - {model: "mymodel.py:build", weights: after.safetensors, initial: zero, input_shape: [12], truth: x.npy, name: probe}
  - {model: "two_layer.py:build", weights: two-layer-after.safetensors, initial: two-layer-before.safetensors,
     truth: two-layer-x.npy, name: two-layer}
  - {model: "convolution.py:build", weights: convolution.pt, initial: zero, input_shape: [64], truth: digits.npy,
     name: convolution}
  - {model: "mymodel.py:build", weights: broken.safetensors, initial: zero, input_shape: [12], truth: x.npy,
     name: broken}
  - {model: "hostile.py:build", weights: after.safetensors, initial: zero, input_shape: [12], num_samples: 3,
     name: "../../<script>alert(1)</script>"}
"""
    )
    return path


def test_nine_reports_and_one_clear_failure(ten_models, tmp_path):
    out = tmp_path / "audits"
    told, before = [], {path.name for path in tmp_path.iterdir()}
    done = audit_all(read_settings(ten_models), out, ended=told.append)
    assert told == done
    broken = [each for each in done if each.audit is None]
    assert [each.name for each in broken] == ["broken"]
    assert "5 of" in broken[0].reason
    assert "NaN" in broken[0].reason
    assert len(list(out.glob("*/report.html"))) == 9
    recovered = {each.name: each.audit.measured["certain"] for each in done if each.audit}
    assert recovered["too few weights"] == 0
    for name, count in {"relu": 3, "gelu": 3, "pruned": 3, "probe": 3, "two-layer": 3, "convolution": 4}.items():
        assert recovered[name] == count, name
    index = json.loads((out / "audits.json").read_text())["models"]
    assert [each["audited"] for each in index] == [each.audit is not None for each in done]
    assert {path.parent for path in out.glob("*/*")} == {each.folder for each in done if each.audit}
    assert {path.name for path in tmp_path.iterdir()} == before | {"audits"}
    overview = (out / "index.html").read_text()
    assert all(each.audit.report.verdict.headline in overview for each in done if each.audit)
    assert "1 could not be audited" in overview
    assert f'<a href="{done[0].folder.name}/report.html">' in overview
    assert page.render(report_of_all(load_all(out))) == overview
    assert "<script>alert(1)" not in overview


def test_text_from_outside_is_harmless_in_the_page(ten_models, tmp_path):
    settings = read_settings(ten_models)[-1]
    (done,) = audit_all([settings], tmp_path / "audits")
    assert "<script>alert(1)" not in (done.folder / "report.html").read_text()
    assert done.folder.parent == tmp_path / "audits"


_TEXTS = ["../../etc/passwd", "/etc", "..", ".", "", "a/b", "a\\b", ".hidden", "a\0b", "a\nb", "x" * 999, "con",
          "NUL.txt", "модель", "<script>alert(1)</script>", "a-b", "a b", "a  b", "-rf", "\ud800", "a.", "x" * 55,
          "x" * 56, "COM1", "a..b", "x-0123abcd"]  # fmt: skip


def test_every_text_has_a_safe_folder_of_its_own(tmp_path):
    names = [folder_name(place, text) for place, text in enumerate(_TEXTS, start=1)]
    for name in names:
        assert re.fullmatch(r"[0-9]{2}-[A-Za-z0-9_][A-Za-z0-9_-]{0,47}", name)
        inside(tmp_path, name).mkdir()
    assert len(list(tmp_path.iterdir())) == len(_TEXTS)
    assert names[_TEXTS.index("a-b")].endswith("-a-b")


@pytest.mark.parametrize("name", ["..", "../x", "/etc/passwd", "a/../../x", "", ".", "link/x", "loop/x", "a\0b"])
def test_paths_that_leave_their_root_are_refused(tmp_path, name):
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    (root / "loop").symlink_to(root / "loop")
    with pytest.raises(InputError):
        inside(root, name)


def test_paths_below_their_root_are_given_back(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert inside(tmp_path, "a/b") == tmp_path / "a" / "b"
    assert inside(tmp_path, "link/x") == tmp_path / "link" / "x"
