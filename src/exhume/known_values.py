"""What an attacker knows, as people write it: numbers, words, and files of samples, labels or a subspace."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exhume import files
from exhume.errors import FileError, InputError, unknown_name
from exhume.knowledge import Knowledge

NAMES = tuple(Knowledge.model_fields)
# Knowledge that is too large for a command line, and which of it may come as pictures (m, C, H, W).
FROM_FILES, _ROWS = ("samples", "labels", "subspace"), ("samples", "subspace")
_SUFFIXES = (".npy", ".safetensors")


def known_name(name: str) -> str:
    """A name of knowledge, with hyphens or underscores."""
    plain = name.strip().replace("-", "_")
    if plain not in NAMES:
        raise unknown_name("knowledge", name, NAMES)
    return plain


def known_value(name: str, text: str) -> Any:
    """A number, several with commas between them, a word, or the tensor of a file."""
    if name in FROM_FILES:
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
