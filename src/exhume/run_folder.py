"""Run folders: one victim, its secret training data, and one subfolder an attack."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exhume.data import Dataset
from exhume.errors import FileError, InputError, brief
from exhume.results.reconstruction import Reconstruction
from exhume.support import files, serialise
from exhume.target.target import Target

_SECRET = "secret.safetensors"
_RESULT = "result.json"
_VICTIM, _AUDIT = "victim.json", "audit.json"


@dataclass(frozen=True)
class RunFolder:
    """A folder of files: `victim.*` (public), `secret.safetensors` (the training data), `<method>/` for each attack."""

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
        if (self.path / _AUDIT).exists() and not (self.path / _VICTIM).exists():
            raise FileError(
                f"{self.path} is the folder of an audit, which does not hold the model; to try other attacks, repeat "
                "the command of the audit with --method NAME and another --out"
            )
        return Target.load(self.path, **options)

    def save_secret(self, data: Dataset) -> None:
        """Writes the training data."""
        tensors, rest = serialise.dump(data)
        formats = {name: json.dumps(rest[name]) for name in ("picture", "table")}
        files.write_tensors(self.path / _SECRET, tensors, {"name": data.name, "protocol": data.protocol, **formats})

    def load_secret(self) -> Dataset:
        """Reads the training data: for scores and reports, never for an attack."""
        tensors, metadata = files.read_tensors(self.path / _SECRET), files.read_metadata(self.path / _SECRET)
        try:
            formats = {name: json.loads(metadata.get(name, "null")) for name in ("picture", "table")}
            # Version 0.1.0 wrote no name.
            described = {"name": metadata.get("name", ""), "protocol": metadata["protocol"], **formats}
            return serialise.load(Dataset, tensors, described)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise FileError(f"{self.path / _SECRET} does not hold a whole data set: {brief(error)}") from error

    @property
    def holds_secret(self) -> bool:
        """Whether the training data are there; they are not opened."""
        return (self.path / _SECRET).exists()

    def save_result(self, result: Reconstruction) -> None:
        """Saves a result and then drops what it replaces: the checkpoint, and the score of an earlier result."""
        result.save(self.attack(result.method))
        for stale in (self.checkpoint(result.method), *self.judgements(result.method)):
            stale.unlink(missing_ok=True)

    def load_result(self, method: str) -> Reconstruction:
        """Reads the result of an attack."""
        return Reconstruction.load(self.attack(method))

    def check_belongs(self, result: Reconstruction, target: Target) -> None:
        """Refuses a result of other weights than the folder holds now."""
        try:
            same = result.target == target.with_knowledge(result.knowledge).fingerprint
        except InputError:
            same = False
        if not same:
            place = self.attack(result.method)
            raise FileError(f"{place} holds a result for other weights than {self.path} does now; attack it again")

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
