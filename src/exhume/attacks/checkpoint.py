"""Checkpoints of a running attack: saved atomically now and then, resumed only by the run that wrote them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from exhume import files
from exhume.errors import FileError
from exhume.target import Target

_FORMAT = "1"
# How much work a crash may cost.
EVERY_SECONDS = 10.0


def fingerprint(target: Target, settings: Mapping[str, Any]) -> str:
    """A hash of all that the run's trajectory depends on: the target and the settings."""
    return hashlib.sha256(json.dumps([target.fingerprint, dict(settings)], sort_keys=True).encode()).hexdigest()


@dataclass
class Checkpoint:
    """Where a run keeps its state; without a path it keeps none.

    Attributes:
        path: the file, or None.
        fingerprint: identity of the run.
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
                f"{self.path} belongs to another run (other weights, seed, method or options); "
                "repeat that run's settings, or leave out --resume to start anew"
            )
        # Copies: BLAS may round differently on memory that is aligned differently, and a file is mapped as it comes.
        tensors = {name: tensor.clone() for name, tensor in files.read_tensors(self.path).items()}
        return tensors, json.loads(metadata["numbers"])

    def save_if_due(self, state: Callable[[], tuple[Mapping[str, torch.Tensor], Mapping[str, Any]]]) -> None:
        """Saves the state if the last save is long enough ago."""
        if self.path is None or time.monotonic() - self._last < EVERY_SECONDS:
            return
        tensors, numbers = state()
        metadata = {"format": _FORMAT, "fingerprint": self.fingerprint, "numbers": json.dumps(dict(numbers))}
        files.write_tensors(self.path, tensors, metadata)
        self._last = time.monotonic()
