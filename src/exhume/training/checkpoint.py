"""Checkpoints of a running training: saved atomically now and then, resumed only by the run that wrote them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from exhume import files
from exhume.errors import FileError

_FORMAT = "training-1"
# How much work a crash may cost.
EVERY_SECONDS = 10.0


def fingerprint(settings: Mapping[str, Any], tensors: Iterable[torch.Tensor]) -> str:
    """A hash of all that a trajectory depends on: the settings, the initial weights and the data."""
    digest = hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode())
    for tensor in tensors:
        digest.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()


@dataclass
class TrainingCheckpoint:
    """Where a training keeps its state; without a path it keeps none.

    Attributes:
        path: the file, or None.
        fingerprint: identity of the training.
        resume: whether to continue from an existing file rather than start anew.
    """

    path: Path | None = None
    fingerprint: str = ""
    resume: bool = False
    _last: float = field(default_factory=time.monotonic)

    def load(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """The saved tensors and numbers to continue from, or None to start anew."""
        if self.path is None or not self.resume or not self.path.exists():
            return None
        metadata = files.read_metadata(self.path)
        if metadata.get("format") != _FORMAT or metadata.get("fingerprint") != self.fingerprint:
            raise FileError(
                f"{self.path} belongs to another training (other weights, data, seed or options); "
                "repeat that one's settings, or leave out --resume to start anew"
            )
        return files.read_tensors(self.path), json.loads(metadata["numbers"])

    @property
    def due(self) -> bool:
        """Whether the last save is long enough ago."""
        return self.path is not None and time.monotonic() - self._last >= EVERY_SECONDS

    def save(self, tensors: Mapping[str, torch.Tensor], numbers: Mapping[str, Any]) -> None:
        """Saves the state."""
        if self.path is None:
            return
        metadata = {"format": _FORMAT, "fingerprint": self.fingerprint, "numbers": json.dumps(dict(numbers))}
        files.write_tensors(self.path, tensors, metadata)
        self._last = time.monotonic()
