"""A user's model: run only when named, every mishap one clear line, nothing left behind."""

import re
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

from exhume import networks
from exhume.auditing.architectures import assumed_settings, guess_config, known_architecture
from exhume.auditing.folders import folder_name, inside
from exhume.auditing.model_file import build_model, check_forward, fit_weights, load_model
from exhume.errors import InputError

_NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, inputs):
        return self.head(torch.relu(self.first(inputs)))

def build():
    return Net()
"""


@pytest.fixture
def write(tmp_path):
    def written(text, name="net.py", folder="."):
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return written


@pytest.mark.parametrize("factory", ["build", "Net"])
def test_functions_and_classes_of_a_file_build_the_model(write, factory):
    model = build_model(f"{write(_NET)}:{factory}")
    assert type(model).__name__ == "Net"
    assert check_forward(model, (4,)) == (2,)


def test_dotted_modules_build_the_model():
    assert isinstance(build_model("torch.nn:Identity"), nn.Identity)


def test_helpers_beside_the_file_are_found_and_not_shared_with_another_model(write, tmp_path):
    for width in (3, 5):
        write(f"WIDTH = {width}", "sizes.py", f"model{width}")
        write("def build():\n  import sizes\n  from torch import nn\n  return nn.Linear(2, sizes.WIDTH)",
              folder=f"model{width}")  # fmt: skip
    path = list(sys.path)
    widths = [build_model(f"{tmp_path}/model{width}/net.py:build").out_features for width in (3, 5)]
    assert widths == [3, 5]
    assert sys.path == path
    assert "sizes" not in sys.modules


def test_a_changed_file_is_read_anew_and_nothing_is_written_beside_it(write, tmp_path):
    for width in (3, 5):
        path = write(f"from torch import nn\ndef build(): return nn.Linear(2, {width})")
        assert build_model(f"{path}:build").out_features == width
    assert [each.name for each in tmp_path.iterdir()] == ["net.py"]


def test_a_model_file_does_not_change_the_state_of_the_process(write, tmp_path):
    path = write(
        "import os, sys, torch\ntorch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)\n"
        "torch.manual_seed(3)\nsys.path.append('/nowhere')\nos.chdir('/')\nsys.argv.append('x')\n" + _NET
    )
    before = (torch.get_default_dtype(), torch.is_grad_enabled(), Path.cwd(), list(sys.path), list(sys.argv))
    state = torch.get_rng_state()
    build_model(f"{path}:build")
    assert before == (torch.get_default_dtype(), torch.is_grad_enabled(), Path.cwd(), list(sys.path), list(sys.argv))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def build():\n    raise ValueError('no such layer')", "net.py, line 2: ValueError: no such layer"),
        ("def build():\n    return None", "returned a NoneType; valid: a torch.nn.Module"),
        ("import sys\ndef build():\n    sys.exit(3)", "net.py, line 3: SystemExit: 3"),
        ("import sys\nsys.exit('bye')", "net.py, line 2: SystemExit: bye"),
        ("def build(:\n    pass", "net.py, line 1: SyntaxError"),
        ("import nothing_of_this_name", "net.py, line 1: ModuleNotFoundError"),
        ("def build():\n    return build()", "net.py, line 2: RecursionError"),
        ("def build(width): pass", "called without arguments, but: missing a required argument: 'width'"),
        ("build = 3", "is a int; valid: a class or a function"),
        ("def make(): pass", "there is no 'build'; there are: make"),
        ("def build():\n    raise ValueError('\\x1b[2J' + 'x' * 10**6)", "net.py, line 2: ValueError: "),
        ("class E(BaseException):\n  def __str__(self): raise E\ndef build(): raise ValueError(E())", "line 3"),
    ],
)
def test_errors_in_a_model_file_are_one_line_that_names_the_place(write, text, words):
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        build_model(f"{write(text)}:build")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "net.py",
        ":build",
        "net.py:",
        "net.py:a b",
        "net.py:os.system('x')",
        "no/such.py:build",
        "not-a-module:build",
        "a\0b.py:build",
        "missing_module_of_exhume:build",
        ".:build",
    ],
)
def test_references_that_name_no_factory_are_refused(reference):
    with pytest.raises(InputError):
        build_model(reference)


def test_a_file_that_failed_leaves_no_module_behind(write):
    before = set(sys.modules)
    with pytest.raises(InputError):
        build_model(f"{write('raise ValueError')}:build")
    assert not {name for name in set(sys.modules) - before if name.startswith("exhume_model")}


def test_weights_are_loaded_in_eval_mode_from_a_file_or_a_state_dict(write, tmp_path):
    reference = f"{write(_NET)}:build"
    trained = build_model(reference)
    safetensors.torch.save_file(trained.state_dict(), tmp_path / "w.safetensors")
    for weights in (trained.state_dict(), tmp_path / "w.safetensors", str(tmp_path / "w.safetensors")):
        model = load_model(reference, weights)
        assert not model.training
        assert all(torch.equal(model.state_dict()[name], each) for name, each in trained.state_dict().items())


def test_weights_that_do_not_fit_are_named(write):
    state = build_model(f"{write(_NET)}:build").state_dict()
    state["first.weight"], state["extra"] = torch.ones(6, 9), torch.ones(1)
    del state["head.bias"]
    words = (
        "the weights do not fit Net: missing: head.bias; unexpected: extra; "
        "of another shape: first.weight ((6, 9) in the file, (6, 4) in the model)"
    )
    with pytest.raises(InputError, match=re.escape(words)):
        load_model(f"{write(_NET)}:build", state)


def test_only_the_first_names_of_many_are_shown():
    with pytest.raises(InputError, match=r"unexpected: x0, x1, x2, x3, x4 and 95 more"):
        fit_weights(nn.Identity(), {f"x{number}": torch.ones(1) for number in range(100)})


def test_settings_are_refused_for_a_users_own_model(write):
    with pytest.raises(InputError, match="takes none"):
        load_model(f"{write(_NET)}:build", {}, config={"width": 3})


_KNOWN = [
    networks.TwoLayer(7, 9, 3),
    networks.MLP(7, (5, 6, 4), 2),
    networks.ResNet((3, 8, 8), 4, 2, 3),
    networks.ResNet((1, 6, 6), 2, 1, 0),
    networks.VisionTransformer((3, 16, 16), 24, 5, head_bias=True, depth=3),
]


@pytest.mark.parametrize("network", _KNOWN, ids=lambda each: each.name)
def test_known_architectures_are_rebuilt_from_the_shapes_of_their_weights(network):
    again = load_model(network.name, network.state_dict())
    assert again.config == network.config
    inputs = torch.randn(2, *network.input_shape)
    assert torch.equal(again(inputs), network.eval()(inputs))
    assert len(assumed_settings(again)) == 1


def test_settings_that_shapes_do_not_show_can_be_given():
    network = networks.TwoLayer(7, 9, 3, activation="gelu")
    again = load_model("two-layer", network.state_dict(), config={"activation": "gelu"})
    assert assumed_settings(again) == ("activation = gelu",)
    assert again.config == network.config


def test_weights_of_another_architecture_and_unknown_names_are_refused():
    state = networks.TwoLayer(7, 9, 3).state_dict()
    with pytest.raises(InputError, match="not those of a resnet"):
        guess_config("resnet", state)
    with pytest.raises(InputError, match="unknown architecture 'gpt'; valid: mlp, resnet, two-layer, vit"):
        known_architecture("gpt", {}, state)
    with pytest.raises(InputError, match="two-layer needs input_dim, width"):
        known_architecture("two-layer")


def test_few_bytes_of_weights_never_build_a_large_network():
    state = {"stem.weight": torch.ones(10**5, 1, 1, 1), "head.weight": torch.ones(1, 49)}
    state |= {f"blocks.{block}.inner.weight": torch.ones(1) for block in range(1000)}
    with pytest.raises(InputError, match=r"blocks.0.inner.weight is \(1,\)"):
        known_architecture("resnet", {}, state)


class _Forward(nn.Module):
    def __init__(self, answer):
        super().__init__()
        self.head, self.answer = nn.Linear(3, 2), answer

    def forward(self, inputs):
        return self.answer(self.head(inputs))


def _fails(_outputs):
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float64)
    raise RuntimeError("the third\nlayer broke")


def _exits(_outputs):
    sys.exit(1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (_fails, r"fails on inputs of shape \(2, 3\) in test_model_file.py, line \d+: RuntimeError: the third layer"),
        (_exits, r"in test_model_file.py, line \d+: SystemExit: 1"),
        (lambda outputs: (outputs, outputs), "returns a tuple, no tensor"),
        (lambda outputs: {"logits": outputs}, "returns a dict, no tensor"),
        (lambda outputs: None, "returns a NoneType, no tensor"),
        (lambda outputs: outputs.sum(), r"outputs of shape \(\) from 2 inputs"),
        (lambda outputs: outputs / 0, "NaN or infinite"),
    ],
)
def test_a_forward_pass_that_goes_wrong_is_told_and_leaves_no_state_behind(answer, words):
    module = _Forward(answer).eval()
    state, dtype = torch.get_rng_state(), torch.get_default_dtype()
    with torch.no_grad(), pytest.raises(InputError, match=words):
        check_forward(module, (3,))
    with pytest.raises(InputError, match=words):
        check_forward(module, (3,))
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == dtype
    assert torch.equal(state, torch.get_rng_state())
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in module.modules())
    assert all(weight.grad is None for weight in module.parameters())


@pytest.mark.parametrize("shape", [(), (0,), (3, -1), (10**6, 10**6), 3, "3", (2.0,), (True,), (2**62, 2**62)])
def test_input_shapes_that_are_none_are_refused(shape):
    with pytest.raises(InputError, match="input_shape"):
        check_forward(nn.Identity(), shape)


_TEXTS = ["../../etc/passwd", "/etc", "..", ".", "", "a/b", "a\\b", ".hidden", "a\0b", "a\nb", "x" * 999, "con",
          "NUL.txt", "модель", "<script>alert(1)</script>", "a-b", "a b", "a  b", "-rf", "\ud800", "a.", "x" * 55,
          "x" * 56, "COM1", "a..b", "x-0123abcd"]  # fmt: skip


def test_every_text_has_a_safe_folder_of_its_own(tmp_path):
    names = {text: folder_name(text) for text in _TEXTS}
    assert len({name.lower() for name in names.values()}) == len(_TEXTS)
    for name in names.values():
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name)
        assert ".." not in name
        assert not name.endswith(".")
        inside(tmp_path, name).mkdir()
    assert len(list(tmp_path.iterdir())) == len(_TEXTS)
    assert names["a-b"] == "a-b"


def test_a_name_made_by_hashing_is_not_that_of_another_text():
    made = folder_name("a/b")
    assert folder_name(made) != made


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
