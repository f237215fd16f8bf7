"""What the attacker is assumed to know, from the command line: --know name=value, --forget name, --num-samples."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from exhume import files
from exhume.cli.options import split_pair, whole
from exhume.errors import FileError, InputError, unknown_name
from exhume.knowledge import Knowledge
from exhume.target import Target

AUTO = "auto"
_NAMES = tuple(Knowledge.model_fields)
# Knowledge that is too large for a command line, and which of it may come as pictures (m, C, H, W).
_FROM_FILES, _ROWS = ("samples", "labels", "subspace"), ("samples", "subspace")
_SUFFIXES = (".npy", ".safetensors")

NumSamples = Annotated[
    str | None,
    typer.Option(help=f"How many samples to look for, or {AUTO} to estimate it; by default what victim.json says."),
]
Know = Annotated[
    list[str] | None,
    typer.Option(
        help="What the attacker knows besides the weights, as name=value; may be repeated. Samples, labels and a "
        f"subspace are read from a .npy or .safetensors file. Names: {', '.join(_NAMES)}."
    ),
]
Forget = Annotated[
    list[str] | None,
    typer.Option(help="What the attacker does not know although victim.json says it; may be repeated."),
]


def assume(target: Target, know: list[str] | None, forget: list[str] | None, num_samples: str | None) -> Target:
    """The target under the knowledge that the command line asks for.

    `--num-samples N` is the same as `--know num_samples=N`, and `--num-samples auto` as `--forget num_samples`.
    """
    pairs, names = list(know or []), [_checked(name) for name in forget or []]
    if num_samples == AUTO:
        names.append("num_samples")
    elif num_samples is not None:
        pairs.append(f"num_samples={whole(num_samples)}")
    texts = [split_pair(pair) for pair in pairs]
    _check_once([_checked(name) for name, _ in texts] + names)
    values = {_checked(name): _value(_checked(name), text) for name, text in texts}
    if not values and not names:
        return target
    assumed = target.with_knowledge(target.knowledge.without(*names).knowing(**values))
    assumed.knowledge.pixel_bounds(assumed.input_shape)  # an error now is better than in the midst of an attack
    return assumed


def _checked(name: str) -> str:
    """A name of knowledge, with hyphens or underscores."""
    plain = name.strip().replace("-", "_")
    if plain not in _NAMES:
        raise unknown_name("knowledge", name, _NAMES)
    return plain


def _check_once(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{name} is said twice; give one of --know {name}=..., --forget {name} or --num-samples")
        seen.add(name)


def _value(name: str, text: str) -> Any:
    """A number, several with commas between them, a word, or the tensor of a file."""
    if name in _FROM_FILES:
        return _tensor(name, Path(text))
    parts = [_number(part) for part in text.split(",")]
    if all(isinstance(part, float) for part in parts):
        if not all(math.isfinite(part) for part in parts):
            raise InputError(f"{name} is {text}; valid: finite numbers")
        return parts[0] if len(parts) == 1 else tuple(parts)
    return text


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _tensor(name: str, path: Path) -> torch.Tensor:
    """The tensor of that name in a file; pictures (m, C, H, W) become rows."""
    if path.suffix not in _SUFFIXES:
        raise InputError(
            f"{name} are read from a file, and {str(path)!r} is none; valid: {' or '.join(_SUFFIXES)} files"
        )
    tensor = _from_numpy(path) if path.suffix == ".npy" else _from_safetensors(name, path)
    return tensor.flatten(1) if name in _ROWS and tensor.ndim > 2 else tensor


def _from_numpy(path: Path) -> torch.Tensor:
    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except FileNotFoundError as error:
        raise FileError(f"{path} does not exist") from error
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise FileError(f"{path} is not a readable .npy file of numbers (truncated, or a pickle?): {error}") from error
    if array.dtype.kind not in "fiub":
        raise FileError(f"{path} holds {array.dtype}; valid: one array of real numbers")
    if array.dtype.kind != "f":
        return torch.from_numpy(array.astype(np.int64))
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("=") if array.dtype.itemsize <= 8 else np.float64))


def _from_safetensors(name: str, path: Path) -> torch.Tensor:
    tensors = files.read_tensors(path)
    if name in tensors:
        return tensors[name]
    if len(tensors) == 1:
        return next(iter(tensors.values()))
    raise FileError(f"{path} holds {', '.join(sorted(tensors)) or 'nothing'}; valid: one tensor, or one named {name}")
