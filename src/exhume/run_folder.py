"""Run folders: one victim, its secret training data, and one subfolder an attack."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from exhume import files
from exhume.errors import FileError, brief
from exhume.reconstruction import Reconstruction
from exhume.target import Target

_SECRET = "secret.safetensors"
_RESULT = "result.json"


@dataclass(frozen=True)
class Secret:
    """The truth that only scores and reports may open.

    Attributes:
        inputs: X (n, d), the training inputs.
        labels: (n,) or (n, k).
        non_members: (m, d) samples of the same source that were not trained on.
        picture: how to draw an input, as JSON; None for plain vectors.
        protocol: how the data set was made, in a sentence.
        table: how an input is a record of named columns, as JSON; None if it is not.
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    non_members: torch.Tensor
    picture: dict[str, Any] | None
    protocol: str
    table: dict[str, Any] | None = None


@dataclass(frozen=True)
class RunFolder:
    """A folder of files: `victim.*` (public), `secret.safetensors` (the truth), and `<method>/` for each attack."""

    path: Path

    def save_target(self, target: Target) -> None:
        """Writes the public part; the folder becomes readable by its owner alone."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise FileError(f"cannot make the run folder {self.path}: {error}") from error
        target.save(self.path)

    def load_target(self, **options: Any) -> Target:
        """Reads the public part."""
        self._check_exists()
        return Target.load(self.path, **options)

    def save_secret(self, secret: Secret) -> None:
        """Writes the truth."""
        tensors = {"inputs": secret.inputs, "labels": secret.labels, "non_members": secret.non_members}
        metadata = {
            "picture": json.dumps(secret.picture),
            "protocol": secret.protocol,
            "table": json.dumps(secret.table),
        }
        files.write_tensors(self.path / _SECRET, tensors, metadata)

    def load_secret(self) -> Secret:
        """Reads the truth: for scores and reports, never for an attack."""
        tensors, metadata = files.read_tensors(self.path / _SECRET), files.read_metadata(self.path / _SECRET)
        try:
            return Secret(
                tensors["inputs"],
                tensors["labels"],
                tensors["non_members"],
                json.loads(metadata["picture"]),
                metadata["protocol"],
                json.loads(metadata.get("table", "null")),  # folders of earlier versions have none
            )
        except (KeyError, ValueError, RecursionError) as error:
            raise FileError(f"{self.path / _SECRET} does not hold a whole data set: {brief(error)}") from error

    @property
    def holds_secret(self) -> bool:
        """Whether the truth is there; it is not opened."""
        return (self.path / _SECRET).exists()

    def save_result(self, result: Reconstruction) -> None:
        """Saves a result and then drops what it replaces: the checkpoint, and the score of an earlier result."""
        result.save(self.attack(result.method))
        for stale in (self.checkpoint(result.method), *self.judgements(result.method)):
            stale.unlink(missing_ok=True)

    def load_result(self, method: str) -> Reconstruction:
        """Reads the result of an attack."""
        return Reconstruction.load(self.attack(method))

    def attack(self, method: str) -> Path:
        """The subfolder of an attack."""
        return self.path / method

    def checkpoint(self, method: str) -> Path:
        """The checkpoint file of an attack."""
        return self.attack(method) / "checkpoint.safetensors"

    def judgements(self, method: str) -> tuple[Path, Path]:
        """The score and the gallery of an attack."""
        return self.attack(method) / "score.json", self.attack(method) / "gallery.png"

    @property
    def comparison(self) -> tuple[Path, Path]:
        """The table and the gallery of a comparison of attacks."""
        return self.path / "compare.json", self.path / "compare.png"

    def finished(self) -> list[str]:
        """The methods with a result, the newest first."""
        self._check_exists()
        results = sorted(self.path.glob(f"*/{_RESULT}"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        return [result.parent.name for result in results]

    def chosen(self, method: str | None) -> str:
        """The given method, or the newest; an error lists what is there."""
        finished = self.finished()
        if not finished:
            raise FileError(f"{self.path} holds no attack yet; run: exhume attack {self.path}")
        if method is not None and method not in finished:
            raise FileError(f"{self.path} holds no result of {method!r}; there are: {', '.join(finished)}")
        return method or finished[0]

    def _check_exists(self) -> None:
        if not self.path.is_dir():
            raise FileError(f"{self.path} is not a run folder; make one with: exhume train rf --out {self.path}")
