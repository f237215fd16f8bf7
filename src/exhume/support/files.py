"""Files: atomic writes, safetensors and JSON. No pickle is ever read or written."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from exhume.errors import FileError, brief

# What a pickle or a torch.save archive starts with: protocol 2+ pickles, and the zip that wraps newer ones. The
# length that opens a safetensors file may start with the same bytes, but the brace of its header follows at once.
_PICKLE_MAGIC = b"\x80"
_ZIP_MAGIC = b"PK"
_HEADER_AT = 8
# The longest header that safetensors itself accepts.
_LONGEST_HEADER = 100_000_000
# Far more than any description or history that exhume writes.
_LARGEST_JSON = 256 * 2**20


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Writes through a temporary file beside `path` and renames it, so that `path` is never half-written.

    The temporary file is flushed to disk before the rename; whatever goes wrong, the last good file stays.
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        temporary = Path(name)
        write(temporary)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise FileError(f"cannot write {path}: {error}; the previous file, if any, is untouched") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Writes bytes atomically."""
    write_atomically(path, lambda temporary: _discard(temporary.write_bytes(content)))


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes one JSON object atomically."""
    write_bytes(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Reads one JSON object."""
    path = Path(path)
    size = regular_size(path)
    if size > _LARGEST_JSON:
        raise FileError(f"{path} is a JSON file of {size} bytes; at most {_LARGEST_JSON} are read")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(f"{path} is not readable JSON: {brief(error)}") from error
    if not isinstance(value, dict):
        raise FileError(f"{path} holds a JSON {type(value).__name__}, not an object")
    return value


def regular_size(path: Path) -> int:
    """The bytes of a regular file; whatever else has that name is refused, as a pipe or a device may never end."""
    try:
        status = Path(path).stat()
    except FileNotFoundError as error:
        raise FileError(f"{path} does not exist") from error
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read: {brief(error)}") from error
    if stat.S_ISDIR(status.st_mode):
        raise FileError(f"{path} is a folder, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"{path} is a pipe or a device; valid: a regular file")
    return status.st_size


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Writes named tensors (and a few words of metadata) as safetensors, atomically."""
    ready = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    meta = dict(metadata) if metadata else None
    write_atomically(path, lambda temporary: safetensors.torch.save_file(ready, str(temporary), meta))


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Reads named tensors from safetensors; a pickle or a damaged file is refused."""
    return _read(path, safetensors.torch.load_file)


class LazyTensors(Mapping[str, torch.Tensor]):
    """Named tensors of a safetensors file, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = Path(path)
        self._names: tuple[str, ...] = _read(self._path, self._read_names)

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._names:
            raise KeyError(name)
        with safetensors.safe_open(str(self._path), framework="pt") as file:
            return file.get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @staticmethod
    def _read_names(name: str) -> tuple[str, ...]:
        with safetensors.safe_open(name, framework="pt") as file:
            return tuple(file.keys())


def read_metadata(path: Path) -> dict[str, str]:
    """Reads the metadata words of a safetensors file."""

    def read(name: str) -> dict[str, str]:
        with safetensors.safe_open(name, framework="pt") as file:
            return dict(file.metadata() or {})

    return _read(path, read)


def check_safetensors(path: Path) -> None:
    """Refuses, before anything is allocated, a file that is no safetensors file or whose header cannot be true."""
    path = Path(path)
    size = regular_size(path)
    with path.open("rb") as file:
        start = file.read(_HEADER_AT + 1)
    if start.startswith((_PICKLE_MAGIC, _ZIP_MAGIC)) and start[_HEADER_AT:] != b"{":
        raise FileError(
            f"{path} is a pickle or a torch.save archive; exhume reads weights only from safetensors "
            "(convert with safetensors.torch.save_file), because a pickle can run code"
        )
    claimed, room = int.from_bytes(start[:_HEADER_AT], "little"), max(0, size - _HEADER_AT)
    if claimed > min(room, _LONGEST_HEADER):
        raise FileError(
            f"{path} is not a readable safetensors file (truncated or damaged?): its header claims {claimed} bytes; "
            f"valid: at most the {room} that follow in the file, and never more than {_LONGEST_HEADER}"
        )


def _read(path: Path, read: Callable[[str], Any]) -> Any:
    path = Path(path)
    try:
        check_safetensors(path)
        return read(str(path))
    except (OSError, safetensors.SafetensorError) as error:
        raise FileError(f"{path} is not a readable safetensors file (truncated or damaged?): {brief(error)}") from error


def _discard(_: object) -> None:
    return None
