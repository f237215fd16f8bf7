"""Checkpoints of a running attack: saved atomically now and then, resumed only by the run that wrote them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from exhume import files
from exhume.errors import FileError
from exhume.sharding import ALONE, Processes
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

    Of several processes the first one reads and writes the file, and tells the others what it read: a state is the same
    in all, and on any number of them.

    Attributes:
        path: the file, or None.
        fingerprint: identity of the run.
        resume: whether to continue from an existing file rather than start anew.
        processes: that run together.
    """

    path: Path | None = None
    fingerprint: str = ""
    resume: bool = False
    processes: Processes = ALONE
    _last: float = field(default_factory=time.monotonic)

    def load(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """The saved tensors and numbers to continue from, or None to start anew."""
        saved = self._told(self._read() if self.processes.leads else None)
        if saved is None:
            return None
        tensors, metadata = saved
        if metadata.get("format") != _FORMAT or metadata.get("fingerprint") != self.fingerprint:
            raise FileError(
                f"{self.path} belongs to another run (other weights, seed, method or options); "
                "repeat that run's settings, or leave out --resume to start anew"
            )
        # Copies: BLAS may round differently on memory that is aligned differently, and a file is mapped as it comes.
        return {name: tensor.clone() for name, tensor in tensors.items()}, json.loads(metadata["numbers"])

    def _read(self) -> tuple[dict[str, torch.Tensor], dict[str, str]] | None:
        if self.path is None or not self.resume or not self.path.exists():
            return None
        return files.read_tensors(self.path), files.read_metadata(self.path)

    def _told(
        self, saved: tuple[dict[str, torch.Tensor], dict[str, str]] | None
    ) -> tuple[dict[str, torch.Tensor], dict[str, str]] | None:
        """What the first process read: others may be on machines that do not see the file."""
        if self.processes.ranks == 1:
            return saved
        told = None if saved is None else (safetensors.torch.save(saved[0]), json.dumps(saved[1]).encode())
        tensors = self.processes.lead_bytes(told and told[0])
        metadata = self.processes.lead_bytes(told and told[1])
        return None if tensors is None or metadata is None else (safetensors.torch.load(tensors), json.loads(metadata))

    def save_if_due(self, state: Callable[[], tuple[Mapping[str, torch.Tensor], Mapping[str, Any]]]) -> None:
        """Saves the state if the last save is long enough ago."""
        if self.path is None or not self.processes.leads or time.monotonic() - self._last < EVERY_SECONDS:
            return
        tensors, numbers = state()
        metadata = {"format": _FORMAT, "fingerprint": self.fingerprint, "numbers": json.dumps(dict(numbers))}
        files.write_tensors(self.path, tensors, metadata)
        self._last = time.monotonic()
