"""A user's model: its file and factory, run only because they are named, and weights loaded into the result."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import math
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from exhume.errors import InputError, brief
from exhume.features.find_head import run, token_hint
from exhume.features.module import probe_inputs
from exhume.features.prepare import in_full_precision, prepare

_FORM = "mymodel.py:build or package.module:build"
# Frames in these folders are not the user's.
_LIBRARIES = tuple(f"{folder}{os.sep}" for folder in (*torch.__path__, Path(__file__).parents[1], *importlib.__path__))
# Characters of torch's list of the names and shapes that do not fit.
_LONGEST_MISFIT = 600
# An input of more numbers than this is a typing error.
_LARGEST_INPUT = 2**27


def build_model(reference: str) -> nn.Module:
    """The module that a user's factory makes."""
    return Factory(reference)()


class Factory:
    """A user's factory; it is loaded at the first call, and other processes load it themselves.

    Args:
        reference: "mymodel.py:build", a file and a class or function in it that needs no arguments; or
            "package.module:build". This is the user's own code: it is run here, and only because it was named.
            The file's folder is on the path of imports while it is loaded and builds.
    """

    def __init__(self, reference: str) -> None:
        self._reference = reference
        self._place, colon, self._name = reference.rpartition(":")
        if not colon or not self._place or not all(part.isidentifier() for part in self._name.split(".")):
            raise InputError(f"model {brief(reference, 120)!r} names no factory; valid: {_FORM}")
        self._path = Path(self._place).expanduser()
        in_file = self._path.suffix == ".py"
        if not in_file and not all(part.isidentifier() for part in self._place.split(".")):
            raise InputError(f"model {brief(reference, 120)!r} names neither a .py file nor a module; valid: {_FORM}")
        if in_file and not self._path.is_file():
            raise InputError(f"model file {brief(self._path, 200)} does not exist; valid: {_FORM}")
        self._folder = self._path.resolve().parent if in_file else None
        self._module: types.ModuleType | None = None

    def __call__(self) -> nn.Module:
        """The module that it makes."""
        with _restoring_state(), nullcontext() if self._folder is None else _importing_from(self._folder):
            if self._module is None:
                self._module = _call_user_code(self._reference, self._load)
            return _build(self._module, self._name, self._reference)

    def __reduce__(self) -> tuple[type[Factory], tuple[str]]:
        return Factory, (self._reference,)

    def _load(self) -> types.ModuleType:
        return importlib.import_module(self._place) if self._folder is None else _run_file(self._path.resolve())


def fit_weights(module: nn.Module, weights: Mapping[str, torch.Tensor]) -> nn.Module:
    """The module itself with these weights, all of them and no others, in eval mode."""
    name = type(module).__name__
    try:
        module.load_state_dict(dict(weights), strict=True)
    except Exception as error:  # a user's module may load in its own way
        raise InputError(f"the weights do not fit {name}: {brief(error, _LONGEST_MISFIT)}") from error
    _call_user_code(f"{name}.eval()", module.eval)
    return module


def check_forward(module: nn.Module, input_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Tries a forward pass over Gaussian inputs; the shape of one output, or an error that says what went wrong.

    The gradient mode and torch's random numbers are restored, also after an error.
    """
    sides = tuple(input_shape) if isinstance(input_shape, (tuple, list)) else ()
    if not sides or any(isinstance(side, bool) or not isinstance(side, int) or side < 1 for side in sides):
        raise InputError(f"input_shape {input_shape!r}; valid: a tuple of whole numbers above 0, as (3, 32, 32)")
    if math.prod(sides) > _LARGEST_INPUT:
        raise InputError(f"input_shape {sides} has more than {_LARGEST_INPUT} numbers")
    name, module = type(module).__name__, in_full_precision(module)
    inputs = probe_inputs(module, sides, 2)
    with _restoring_state():
        try:
            outputs = _call_user_code(
                f"the forward pass of {name} on inputs of shape {tuple(inputs.shape)}",
                lambda: run(prepare(module, sides), inputs),
            )
        except InputError as error:
            raise InputError(f"{error}{token_hint(module) if error.__cause__ else ''}") from error.__cause__
    if outputs.ndim == 0 or outputs.shape[0] != len(inputs):
        raise InputError(f"{name} makes outputs of shape {tuple(outputs.shape)} from {len(inputs)} inputs")
    if not bool(torch.isfinite(outputs).all()):
        raise InputError(f"the outputs of {name} on Gaussian inputs of shape {sides} are NaN or infinite")
    return tuple(outputs.shape[1:])


def _run_file(path: Path) -> types.ModuleType:
    """The module of a file, under a name that no other file has; nothing is written beside it."""
    name = f"exhume_model_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    code = compile(path.read_bytes(), str(path), "exec")
    sys.modules[name] = module  # dataclasses and the like look themselves up there
    try:
        exec(code, module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _build(module: types.ModuleType, factory: str, reference: str) -> nn.Module:
    """The module that the factory of that name returns."""
    found: Any = module
    for part in factory.split("."):
        found = getattr(found, part, None)
    if found is None:
        names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise InputError(f"{reference}: there is no {factory!r}; there are: {', '.join(names[:20]) or 'no factories'}")
    if isinstance(found, nn.Module):
        return found
    if not callable(found):
        raise InputError(f"{reference} is a {type(found).__name__}; valid: a class or a function")
    try:
        inspect.signature(found).bind()
    except TypeError as error:
        raise InputError(f"{reference} is called without arguments, but: {brief(error)}") from error
    except ValueError:  # some callables do not say what they take
        pass
    made = _call_user_code(reference, found)
    if not isinstance(made, nn.Module):
        raise InputError(f"{reference} returned a {type(made).__name__}; valid: a torch.nn.Module")
    return made


def _call_user_code(reference: str, act: Callable[[], Any]) -> Any:
    """What the user's code returns; whatever it raises becomes one line that names file, line and exception."""
    try:
        return act()
    except KeyboardInterrupt:
        raise
    except BaseException as raised:  # SystemExit, too, must not end an audit
        if isinstance(raised, InputError) and raised.__cause__ is None:
            raise  # a sentence of ours
        # An error of ours that wraps the user's own would repeat the sentence below.
        error = raised.__cause__ if isinstance(raised, InputError) and raised.__cause__ else raised
        text = f"{type(error).__name__}: {brief(error)}" if brief(error) else type(error).__name__
        raise InputError(f"{brief(reference, 200)} fails{_where(error)}: {text}") from error


def _where(error: BaseException) -> str:
    """The innermost place in the user's own code that an error went through, as ", in net.py, line 7"."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" in {Path(error.filename).name}, line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(".py")]
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    return f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Puts a folder on the import path; afterwards modules from it leave `sys.modules`.

    So every model imports its own `layers.py`.
    """
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            own = name.startswith("exhume_model_")
            if not own and isinstance(file, str) and Path(file).resolve().is_relative_to(folder):
                del sys.modules[name]


@contextmanager
def _restoring_state() -> Iterator[None]:
    """Restores process-wide state that a user's code may change: paths, folder, dtype, gradients, random numbers."""
    path, folder, argv = list(sys.path), Path.cwd(), list(sys.argv)
    dtype, gradients, state = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_rng_state()
    try:
        yield
    finally:
        sys.path[:], sys.argv[:] = path, argv
        os.chdir(folder)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)
        torch.set_rng_state(state)
