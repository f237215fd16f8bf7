"""Outcomes kept in a folder as they come, so that a measurement that was cut short goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from exhume import files
from exhume.defences.outcome import Outcome
from exhume.errors import FileError

_NAME = "outcomes.json"


class Kept:
    """Outcomes by a hash of all that they depend on; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else Path(folder) / _NAME
        self._values: dict[str, Any] = {}
        if self._path is not None and self._path.exists():
            self._values = files.read_json(self._path)

    def get(self, key: str) -> Outcome | None:
        """The outcome, if it was kept."""
        try:
            return Outcome.from_json(self._values[key]) if key in self._values else None
        except (KeyError, TypeError) as error:
            raise FileError(f"{self._path} does not hold outcomes of defences: {error!r}") from error

    def put(self, key: str, outcome: Outcome) -> None:
        """Keeps one more."""
        if self._path is not None:
            self._values[key] = outcome.to_json()
            files.write_json(self._path, self._values)


def key_of(parts: list[Any], tensors: Iterable[torch.Tensor | None]) -> str:
    """A hash of plain values and tensors."""
    digest = hashlib.sha256(json.dumps(parts).encode())
    for tensor in tensors:
        digest.update(b"-" if tensor is None else f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        if tensor is not None:
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
