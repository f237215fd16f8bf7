"""The files of a target: `victim.json`, `victim.safetensors`, and the initial weights of a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from exhume.errors import FileError, InputError, brief
from exhume.support import files, serialise
from exhume.target.knowledge import Knowledge, named_as_now

_DESCRIPTION = "victim.json"
_WEIGHTS = "victim.safetensors"
_INITIAL = "initial.safetensors"
_BODY = "model."  # before the names of the feature map's tensors

Weights = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class SavedNetwork:
    """The network of a target; its weights are those of the feature map, and the initial ones."""

    head: str
    trained: tuple[str, ...]


@dataclass(frozen=True)
class SavedTarget:
    """What `victim.json` and `victim.safetensors` hold, but the tensors of the feature map."""

    features: dict[str, Any]
    input_shape: tuple[int, ...]
    knowledge: Knowledge
    displacement: torch.Tensor
    surviving: torch.Tensor | None = None
    trained_head: torch.Tensor | None = None
    model: SavedNetwork | None = None


def write_target(folder: Path, saved: SavedTarget, body: Weights, initial: Weights | None) -> None:
    """Writes a target, the tensors of its feature map, and the initial weights of its network if it has one."""
    tensors, description = serialise.dump(saved)
    if initial is not None:
        files.write_tensors(folder / _INITIAL, initial)
    files.write_tensors(folder / _WEIGHTS, tensors | {f"{_BODY}{name}": tensor for name, tensor in body.items()})
    files.write_json(folder / _DESCRIPTION, description)


def read_target(folder: Path) -> tuple[SavedTarget, dict[str, torch.Tensor], Weights]:
    """Reads what `write_target` wrote; initial weights are read when they are used."""
    description = files.read_json(folder / _DESCRIPTION)
    tensors = named_as_now(files.read_tensors(folder / _WEIGHTS))
    body = {name.removeprefix(_BODY): tensors.pop(name) for name in list(tensors) if name.startswith(_BODY)}
    try:
        saved = serialise.load(SavedTarget, tensors, description)
    except InputError as error:
        raise FileError(f"{folder} does not hold a whole victim: {brief(error)}") from error
    initial = folder / _INITIAL
    return saved, body, files.LazyTensors(initial) if initial.exists() else {}
