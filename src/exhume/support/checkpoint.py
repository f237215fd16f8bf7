"""Checkpoints of an attack or a training: written now and then, and continued only by the run that wrote them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from exhume.errors import FileError
from exhume.support import files
from exhume.support.distributed import ALONE, Processes

_FORMAT = "2"
# Seconds between two saves: the work that a crash may cost.
EVERY_SECONDS = 10.0


def fingerprint(settings: Mapping[str, Any], tensors: Iterable[torch.Tensor] = ()) -> str:
    """A hash of all that a run depends on: settings (plain JSON), and the weights and data it starts from."""
    digest = hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode())
    for tensor in tensors:
        digest.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()


@dataclass
class Checkpoint:
    """The file that a run saves its state to; without a path nothing is saved.

    Of several processes the first one reads and writes the file, and sends what it read to the others: they hold the
    same state, and a run may be continued on another number of processes.

    Attributes:
        path: the file, or None.
        fingerprint: of the run, from `fingerprint`.
        resume: whether to continue from an existing file rather than start anew.
        processes: that run together.
    """

    path: Path | None = None
    fingerprint: str = ""
    resume: bool = False
    processes: Processes = ALONE
    _last: float = field(default_factory=time.monotonic)

    @property
    def due(self) -> bool:
        """Whether this process should save now: it writes the file, and the last save is long enough ago."""
        return self.path is not None and self.processes.leads and time.monotonic() - self._last >= EVERY_SECONDS

    def save(self, tensors: Mapping[str, torch.Tensor], numbers: Mapping[str, Any]) -> None:
        """Replaces the file by this state (tensors, and plain JSON), atomically."""
        if self.path is None or not self.processes.leads:
            return
        metadata = {"format": _FORMAT, "fingerprint": self.fingerprint, "numbers": json.dumps(dict(numbers))}
        files.write_tensors(self.path, tensors, metadata)
        self._last = time.monotonic()

    def load(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """The state to continue from, as it was given to `save`, or None to start anew."""
        # Other processes may run on machines that do not see the file.
        saved = self.processes.broadcast_object(self._read() if self.processes.leads else None)
        if saved is None:
            return None
        tensors, metadata = saved
        if metadata.get("format") != _FORMAT:
            raise FileError(
                f"{self.path} is not a checkpoint of this version of exhume; finish that run with the version that "
                "wrote it, or leave out --resume to start anew"
            )
        if metadata.get("fingerprint") != self.fingerprint:
            raise FileError(
                f"{self.path} belongs to another run (other weights, data, seed, method or options); "
                "repeat that run's settings, or leave out --resume to start anew"
            )
        # Copies: BLAS may round differently on memory that is aligned differently, and a file is mapped as it comes.
        return {name: tensor.clone() for name, tensor in tensors.items()}, json.loads(metadata["numbers"])

    def _read(self) -> tuple[dict[str, torch.Tensor], dict[str, str]] | None:
        if self.path is None or not self.resume or not self.path.exists():
            return None
        return files.read_tensors(self.path), files.read_metadata(self.path)
