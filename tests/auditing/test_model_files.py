"""A user's model file runs only if it is named, every failure gives a one-line error, and no state is left behind."""

import pickle
import re
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from exhume.auditing.model_files import Factory, build_model, check_forward, fit_weights
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


def test_weights_are_loaded_in_eval_mode(write):
    reference = f"{write(_NET)}:build"
    trained = build_model(reference).state_dict()
    model = fit_weights(build_model(reference), trained)
    assert not model.training
    assert all(torch.equal(model.state_dict()[name], each) for name, each in trained.items())


def test_weights_that_do_not_fit_are_named(write):
    state = build_model(f"{write(_NET)}:build").state_dict()
    state["first.weight"], state["extra"] = torch.ones(6, 9), torch.ones(1)
    del state["head.bias"]
    words = r"the weights do not fit Net: .*[Mm]issing .*head\.bias.*[Uu]nexpected .*extra.*first\.weight.*6, 9.*6, 4"
    with pytest.raises(InputError, match=words):
        fit_weights(build_model(f"{write(_NET)}:build"), state)


def test_only_the_first_names_of_many_are_shown():
    with pytest.raises(InputError, match=r"do not fit Identity: .*x0.*x1.*\.\.\.$") as caught:
        fit_weights(nn.Identity(), {f"x{number}": torch.ones(1) for number in range(1000)})
    assert len(str(caught.value)) < 700


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
        (_fails, r"on inputs of shape \(2, 3\) fails in test_model_files.py, line \d+: RuntimeError: the third layer"),
        (_exits, r"in test_model_files.py, line \d+: SystemExit: 1"),
        (lambda outputs: (outputs, outputs), "returns a tuple; valid: a tensor, or a dict or an object with 'logits'"),
        (lambda outputs: {"hidden": outputs}, "returns a dict with hidden; valid: a tensor"),
        (lambda outputs: None, "returns a NoneType; valid: a tensor"),
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


def test_a_factory_runs_its_file_once_and_can_be_sent_to_other_processes(write):
    text = "from torch import nn\nmade = []\ndef build():\n  made.append(1)\n  return nn.Linear(2, len(made))"
    path = write(text)
    factory = Factory(f"{path}:build")
    assert [factory().out_features for _ in range(3)] == [1, 2, 3]
    assert pickle.loads(pickle.dumps(factory))().out_features == 1
