"""Every loader either loads a damaged file or raises an exhume error, without a crash, a hang or high memory use.

By default 880 files, the sum of the counts below; EXHUME_FUZZ=10 in the environment makes them ten times as many.
"""

import faulthandler
import io
import os
import resource
import signal
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from damaging import damaged, edited_json, edited_npy, edited_png, edited_safetensors, rezipped
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from exhume import Certificate, Knowledge, Reconstruction, Stop, Target, networks
from exhume.auditing.settings import Settings, read_settings
from exhume.auditing.weight_files import read_weights
from exhume.data import Dataset, PictureFormat
from exhume.data.user.arrays import load_arrays
from exhume.data.user.csv import load_table
from exhume.data.user.images import load_folder
from exhume.errors import ExhumeError
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.run_folder import RunFolder
from exhume.support import files
from exhume.sweep.grid import Grid

_TIMES = int(os.environ.get("EXHUME_FUZZ", "1"))
# Seconds of processor time that a loader may take, and of time that a hang below Python may last.
_CPU_SECONDS, _HANG = 20, 600
# What a loader may take beside what the process has; every file here is smaller than a megabyte.
_MEMORY = 2**30
_STATE = {"first.weight": torch.arange(20.0).reshape(5, 4), "steps": torch.tensor(7)}


def _example(count):
    return settings(
        max_examples=count * _TIMES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True, scope="module")
def _bounded_memory():
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzzed")


def _late(_signal, _frame):
    raise AssertionError(f"a loader took more than {_CPU_SECONDS} s of processor time")


def _harmless(load, *arguments):
    """Runs a loader; whether it succeeded or raised an exhume error with a short message."""
    signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, _CPU_SECONDS)  # not the clock's: the machine may be busy
    faulthandler.dump_traceback_later(_HANG, exit=True)  # for a hang below Python, which no signal ends
    words = "none"
    try:
        load(*arguments)
    except ExhumeError as error:
        words = str(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
    return 0 < len(words) < 4000


def _all_of(path):
    lazy = files.LazyTensors(path)
    return [lazy[name] for name in lazy]


def _safetensors():
    return safetensors.torch.save(_STATE, {"why": "test"})


def _archive():
    target = io.BytesIO()
    torch.save({"state_dict": _STATE, "epoch": 3}, target)
    return target.getvalue()


def _npy(**arrays):
    target = io.BytesIO()
    if arrays:
        np.savez(target, **arrays)
    else:
        np.save(target, np.arange(24.0).reshape(6, 4))
    return target.getvalue()


def _picture(kind):
    target = io.BytesIO()
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(target, kind)
    return target.getvalue()


_CSV = b"age (years),weight (kg),label\n" + b"".join(b"%d,%d.5,%d\n" % (n, 50 + n, n % 2) for n in range(20))
_YAML = b"data: {name: sphere, dim: 7}\nvictim: [rf, {activation: tanh}]\nratio: [1, 2.5]\nattack: exact\nseeds: 3\n"
_AUDITS = b"""{"method": "exact", "fail_on": ["recovered=1"], "defences": ["rounding"], "models": [
    {"model": "net.py:build", "weights": "w.pt", "input_shape": [1, 8, 8], "classes": ["a", "b"], "seed": 1},
    {"model": "n.py:make", "weights": "v.pt", "columns": ["age", "mass"], "know": {}}]}"""
_HOSTILE_YAML = ["name: 2024-13-45", "models:\n- {1: 2}", f"name: {'9' * 5000}", "? [1]\n: 2", "a: " + "[" * 20000,
                 "name: !!python/object/apply:os.mkdir [x]", "&a [*a]", "a: &a {b: *a}"]  # fmt: skip


@_example(120)
@given(content=st.one_of(damaged(_safetensors()), edited_safetensors(_safetensors())))
def test_damaged_safetensors(room, content):
    path = room / "weights.safetensors"
    path.write_bytes(content)
    for load in (read_weights, files.read_tensors, _all_of, files.read_metadata):
        assert _harmless(load, path)


@_example(120)
@given(content=st.one_of(damaged(_archive()), rezipped(_archive()), rezipped(_archive())))
def test_damaged_archives_of_torch(room, content):
    path = room / "weights.pt"
    path.write_bytes(content)
    assert _harmless(read_weights, path)


@_example(120)
@given(
    content=st.one_of(
        damaged(_npy()),
        edited_npy(_npy()),
        damaged(_npy(x=np.ones((6, 4)), y=np.arange(6))),
        rezipped(_npy(x=np.ones((6, 4)), y=np.arange(6)), numbers_in="nothing"),
    )
)
def test_damaged_arrays(room, content):
    for name in ("arrays.npy", "arrays.npz"):
        (room / name).write_bytes(content)
        assert _harmless(load_arrays, room / name)


@_example(120)
@given(
    content=st.one_of(
        damaged(_picture("PNG")),
        edited_png(_picture("PNG")),
        *(damaged(_picture(kind)) for kind in ("JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")),
    )
)
@pytest.mark.filterwarnings("ignore")
def test_damaged_pictures(room, content):
    folder = room / "pictures"
    folder.mkdir(exist_ok=True)
    (folder / "a.png").write_bytes(content)
    assert _harmless(load_folder, folder)


@_example(60)
@given(content=damaged(_CSV))
def test_damaged_tables(room, content):
    path = room / "table.csv"
    path.write_bytes(content)
    assert _harmless(load_table, path, "label")


@_example(60)
@given(content=damaged(_YAML))
def test_damaged_grids(room, content):
    path = room / "grid.yaml"
    path.write_bytes(content)
    assert _harmless(Grid.read, path)


@_example(60)
@given(content=st.one_of(damaged(_AUDITS), edited_json(_AUDITS), edited_json(_AUDITS)))
def test_damaged_settings_of_audits(room, content):
    path = room / "audits.yaml"
    path.write_bytes(content)
    assert _harmless(read_settings, path)


@pytest.mark.parametrize("read", [Grid.read, read_settings])
@pytest.mark.parametrize("text", _HOSTILE_YAML, ids=range(len(_HOSTILE_YAML)))
def test_yaml_that_parsers_stumble_over_is_refused(room, read, text):
    path = room / "hostile.yaml"
    path.write_text(text)
    assert _harmless(read, path)


def _result():
    certificate = Certificate(100, 20, 1e-7, 1e-8, 0.1, (1e-6, 1e-5), "recovered", "because")
    return Reconstruction(
        samples=torch.ones(2, 4), coefficients=torch.ones(2, 1), certificate=certificate, target="ab", method="exact",
        seed=0, options={"a": 1}, knowledge=Knowledge(samples=torch.ones(1, 4)), stop=Stop.CONVERGED, steps=3,
        passes=9.0, seconds=0.5, signs_determined=True, norms_determined=True, history={"step": [1.0], "loss": [0.1]},
    )  # fmt: skip


def _targets():
    generator = torch.Generator().manual_seed(0)
    features = RandomFeatureMap(GaussianMatrix(30, 4, 0), "relu")
    network = networks.TwoLayer(4, 6, 2).eval()
    before = {name: each + torch.randn(each.shape, generator=generator) for name, each in network.state_dict().items()}
    plain = Target(features, torch.randn((2, 30), generator=generator))
    return {"plain": plain, "network": Target.last_layer(network, initial_head=before, input_shape=(4,))}


def _damage_one(draw, folder, saved):
    """Puts the saved files into a folder, one of them damaged."""
    chosen = draw(st.sampled_from(sorted(saved)))
    for name, content in saved.items():
        if name == chosen:
            edit = edited_json if name.endswith(".json") else edited_safetensors
            content = draw(st.one_of(damaged(content), edit(content), edit(content)))
        (folder / name).write_bytes(content)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The undamaged folders of a result, of two victims and of the truth."""
    root = tmp_path_factory.mktemp("saved")
    _result().save(root / "result")
    for name, target in _targets().items():
        RunFolder(root / name).save_target(target)
    picture = PictureFormat((1, 2, 2))
    secret = Dataset("own", torch.ones(3, 4), torch.ones(3), torch.ones(0, 4), picture, "made up")
    RunFolder(root / "secret").save_secret(secret)
    return {folder.name: {each.name: each.read_bytes() for each in folder.iterdir()} for folder in root.iterdir()}


def test_the_undamaged_files_are_read(room, saved):
    whole = {"a.safetensors": _safetensors(), "a.pt": _archive(), "a.npy": _npy(), "a.csv": _CSV, "a.yaml": _YAML}
    for name, content in whole.items():
        (room / name).write_bytes(content)
    for name in ("a.safetensors", "a.pt"):
        assert read_weights(room / name).tensors.keys() == _STATE.keys()
    assert load_arrays(room / "a.npy").inputs.shape == (6, 4)
    assert load_table(room / "a.csv", "label").inputs.shape == (20, 2)
    assert Grid.read(room / "a.yaml").size == 12
    (room / "b.yaml").write_bytes(_AUDITS)
    assert all(isinstance(each, Settings) for each in read_settings(room / "b.yaml"))
    for name, load in {"result": Reconstruction.load, "plain": Target.load, "network": Target.load}.items():
        (room / name).mkdir()
        for file, content in saved[name].items():
            (room / name / file).write_bytes(content)
        load(room / name)


def _shown(result):
    return result.summary(), result._repr_html_()


@_example(80)
@given(data=st.data())
def test_damaged_results(room, saved, data):
    folder = room / "one-result"
    folder.mkdir(exist_ok=True)
    _damage_one(data.draw, folder, saved["result"])
    assert _harmless(lambda: _shown(Reconstruction.load(folder)))


@_example(100)
@given(data=st.data(), kind=st.sampled_from(["plain", "network"]))
def test_damaged_victims(room, saved, data, kind):
    folder = room / f"one-{kind}"
    folder.mkdir(exist_ok=True)
    _damage_one(data.draw, folder, saved[kind])
    assert _harmless(RunFolder(folder).load_target)


@_example(40)
@given(data=st.data())
def test_damaged_secrets(room, saved, data):
    folder = room / "one-secret"
    folder.mkdir(exist_ok=True)
    _damage_one(data.draw, folder, saved["secret"])
    assert _harmless(RunFolder(folder).load_secret)
