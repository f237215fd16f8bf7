"""Knowledge written as text, `--know name=value`: numbers, words, files of samples, labels, a subspace or a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from exhume.errors import InputError
from exhume.support import files
from exhume.support.validation import one_of
from exhume.target.knowledge import Knowledge
from exhume.training.recipe import Recipe

NAMES = tuple(Knowledge.model_fields)
# Knowledge that is too large for a command line, and which of it may be images (m, C, H, W).
_RECIPE = "recipe"
FROM_FILES, _ROWS = ("samples", "labels", "subspace", "public", _RECIPE), ("samples", "subspace", "public")
_SUFFIXES = (".npy", ".safetensors")


def known_name(name: str) -> str:
    """A name of knowledge, with hyphens or underscores."""
    return one_of("knowledge", name.strip().replace("-", "_"), NAMES)


def known_value(name: str, text: str) -> Any:
    """A number, several with commas between them, a word, or the tensor of a file."""
    if name == _RECIPE:
        return Recipe.read(Path(text))
    if name in FROM_FILES:
        return _tensor(name, Path(text))
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        return text
    return numbers[0] if len(numbers) == 1 else numbers


def _tensor(name: str, path: Path) -> torch.Tensor:
    """The tensor of that name in a file; images (m, C, H, W) become rows."""
    if path.suffix not in _SUFFIXES:
        raise InputError(f"{name} must be a {' or '.join(_SUFFIXES)} file, not {str(path)!r}")
    tensor = files.read_npy(path) if path.suffix == ".npy" else files.read_tensor(path, name)
    return tensor.flatten(1) if name in _ROWS and tensor.ndim > 2 else tensor
