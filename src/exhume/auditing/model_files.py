"""The door for models: a user's own file and factory, run only when it is named, and weights put into the result."""

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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from exhume.auditing.architectures import known_architecture
from exhume.auditing.limits import DEFAULT_LIMIT
from exhume.auditing.weights import load_weights
from exhume.errors import InputError, brief
from exhume.features.heads import run
from exhume.features.module import probe_inputs
from exhume.networks import NETWORKS

_FORM = "mymodel.py:build, package.module:build, or one of " + ", ".join(NETWORKS)
# Frames in these folders are not the user's.
_LIBRARIES = tuple(f"{folder}{os.sep}" for folder in (*torch.__path__, Path(__file__).parents[1], *importlib.__path__))
_SHOWN = 5
# One input of more numbers than this is a slip of the keyboard.
_LARGEST_INPUT = 2**27


def build_model(reference: str) -> nn.Module:
    """The module that a user's factory makes.

    Args:
        reference: "mymodel.py:build", a file and a class or function in it that needs no arguments; or
            "package.module:build". This is the user's own code: it is run here, and only because it was named.
            The file's folder is on the path of imports while it is loaded and builds.
    """
    place, colon, factory = reference.rpartition(":")
    if not colon or not place or not all(part.isidentifier() for part in factory.split(".")):
        raise InputError(f"model {brief(reference, 120)!r} names no factory; valid: {_FORM}")
    path = Path(place).expanduser()
    if path.suffix != ".py":
        if not all(part.isidentifier() for part in place.split(".")):
            raise InputError(f"model {brief(reference, 120)!r} names neither a .py file nor a module; valid: {_FORM}")
        with _undisturbed():
            return _made_by(_shown(reference, lambda: importlib.import_module(place)), factory, reference)
    if not path.is_file():
        raise InputError(f"model file {brief(path, 200)} does not exist; valid: {_FORM}")
    with _undisturbed(), _importable(path.resolve().parent):
        return _made_by(_shown(reference, lambda: _run_file(path.resolve())), factory, reference)


def load_model(
    reference: str,
    weights: Mapping[str, torch.Tensor] | str | Path,
    *,
    config: Mapping[str, Any] | None = None,
    max_bytes: int | str = DEFAULT_LIMIT,
) -> nn.Module:
    """A model with its trained weights, in eval mode.

    Args:
        reference: as `build_model` takes it, or the name of one of exhume's own architectures.
        weights: a state dict, or the file of one.
        config: settings of one of exhume's own architectures that the weights' shapes do not show.
        max_bytes: limit of the size of a file of weights.
    """
    tensors = load_weights(weights, max_bytes=max_bytes) if isinstance(weights, (str, Path)) else weights
    if reference in NETWORKS:
        return fit_weights(known_architecture(reference, config, tensors), tensors)
    if config:
        raise InputError(f"settings are for exhume's own architectures; {brief(reference, 80)!r} takes none")
    return fit_weights(build_model(reference), tensors)


def fit_weights(module: nn.Module, weights: Mapping[str, torch.Tensor]) -> nn.Module:
    """The module itself with these weights, all of them and no others, in eval mode."""
    name = type(module).__name__
    try:
        module.load_state_dict(dict(weights), strict=True)
    except Exception as error:  # a user's module may load in its own way
        problems = _misfits(module, weights) or f"{type(error).__name__}: {brief(error)}"
        raise InputError(f"the weights do not fit {name}: {problems}") from error
    _shown(f"{name}.eval()", module.eval)
    return module


def check_forward(module: nn.Module, input_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Tries a forward pass over Gaussian inputs; the shape of one output, or an error that says what went wrong.

    Neither the mode of gradients nor torch's random numbers are other than before, whatever happens.
    """
    sides = tuple(input_shape) if isinstance(input_shape, (tuple, list)) else ()
    if not sides or any(isinstance(side, bool) or not isinstance(side, int) or side < 1 for side in sides):
        raise InputError(f"input_shape {input_shape!r}; valid: a tuple of whole numbers above 0, as (3, 32, 32)")
    if math.prod(sides) > _LARGEST_INPUT:
        raise InputError(f"input_shape {sides} has more than {_LARGEST_INPUT} numbers")
    name = type(module).__name__
    inputs = probe_inputs(module, sides, 2)
    try:
        with _undisturbed():
            outputs = run(module, inputs)
    except InputError as error:
        if error.__cause__ is None:
            raise
        cause = error.__cause__
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, too, must not end an audit
        cause = error
    else:
        if outputs.ndim == 0 or outputs.shape[0] != len(inputs):
            raise InputError(f"{name} makes outputs of shape {tuple(outputs.shape)} from {len(inputs)} inputs")
        if not bool(torch.isfinite(outputs).all()):
            raise InputError(f"the outputs of {name} on Gaussian inputs of shape {sides} are NaN or infinite")
        return tuple(outputs.shape[1:])
    raise InputError(
        f"the forward pass of {name} fails on inputs of shape {tuple(inputs.shape)}{_where(cause)}: "
        f"{type(cause).__name__}: {brief(cause)}"
    ) from cause


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


def _made_by(module: types.ModuleType, factory: str, reference: str) -> nn.Module:
    """What the factory of that name makes, if it is a module of torch."""
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
    made = _shown(reference, found)
    if not isinstance(made, nn.Module):
        raise InputError(f"{reference} returned a {type(made).__name__}; valid: a torch.nn.Module")
    return made


def _shown(reference: str, act: Callable[[], Any]) -> Any:
    """What the user's code returns; whatever it raises becomes one line that names file, line and exception."""
    try:
        return act()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, too, must not end an audit
        text = f"{type(error).__name__}: {brief(error)}" if brief(error) else type(error).__name__
        raise InputError(f"{brief(reference, 200)} fails{_where(error)}: {text}") from error


def _where(error: BaseException) -> str:
    """The innermost place in the user's own code that an error went through, as ", in net.py, line 7"."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" in {Path(error.filename).name}, line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(".py")]
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    return f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""


def _misfits(module: nn.Module, weights: Mapping[str, torch.Tensor]) -> str:
    """Which names are missing, unexpected or of another shape, the first few of each."""
    own = {name: _shape(value) for name, value in module.state_dict().items()}
    given = {name: _shape(value) for name, value in weights.items()}
    groups = {
        "missing": [name for name in own if name not in given],
        "unexpected": [name for name in given if name not in own],
        "of another shape": [
            f"{name} ({given[name]} in the file, {own[name]} in the model)"
            for name in own
            if name in given and own[name] != given[name]
        ],
    }
    parts = []
    for word, names in groups.items():
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            parts.append(f"{word}: {', '.join(brief(name, 160) for name in names[:_SHOWN])}{more}")
    return "; ".join(parts)


def _shape(value: Any) -> tuple[int, ...] | None:
    """Of a tensor its shape; lazy parameters and extra states have none."""
    if not isinstance(value, torch.Tensor) or nn.parameter.is_lazy(value):
        return None
    return tuple(value.shape)


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Puts a folder on the path of imports for a while; what was imported from it is then forgotten.

    So another model's `layers.py` is that model's own.
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
def _undisturbed() -> Iterator[None]:
    """Puts back what a user's code may change for all: paths, the folder, torch's dtype, gradients and randomness."""
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
