"""Files: atomic writes, safetensors, JSON, and .npy arrays. No pickle is ever read or written."""

from __future__ import annotations

import json
import math
import os
import stat
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
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
# Bytes; far more than any description or history that exhume writes.
_LARGEST_JSON = 256 * 2**20
# Bytes of the arrays of an .npz file when they are unpacked.
_LARGEST_ARRAYS = 16 * 2**30
# What numpy, zipfile and zlib raise for damaged files; a header is Python text, which has errors of its own.
_UNREADABLE_ARRAYS = (
    OSError, ValueError, EOFError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError, KeyError,
    NotImplementedError, RuntimeError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Writes through a temporary file beside `path` and renames it, so that `path` is never half-written.

    The temporary file is flushed to disk before the rename; if anything fails, the previous file stays.
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
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes one JSON object atomically."""
    write_bytes(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Reads one JSON object."""
    path = Path(path)
    regular_size(path, most=_LARGEST_JSON)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(f"{path} is not readable JSON: {brief(error)}") from error
    if not isinstance(value, dict):
        raise FileError(f"{path} holds a JSON {type(value).__name__}, not an object")
    return value


def regular_size(path: Path, most: float = math.inf) -> int:
    """The bytes of a regular file of at most so many; all else is refused, as a pipe or a device may never end."""
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
    if status.st_size > most:
        raise FileError(f"{path} has {status.st_size} bytes; at most {most} are read")
    return status.st_size


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Writes named tensors (and a few words of metadata) as safetensors, atomically."""
    ready = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    meta = dict(metadata) if metadata else None
    write_atomically(path, lambda temporary: safetensors.torch.save_file(ready, str(temporary), meta))


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Reads named tensors from safetensors; a pickle or a damaged file is refused."""
    return _read(path, lambda file: {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118


def read_tensor(path: Path, name: str) -> torch.Tensor:
    """The tensor of that name in a safetensors file, or its only one."""
    tensors = read_tensors(path)
    if name in tensors:
        return tensors[name]
    if len(tensors) == 1:
        return next(iter(tensors.values()))
    raise FileError(f"{path} holds {', '.join(sorted(tensors)) or 'nothing'}; valid: one tensor, or one named {name}")


def read_npy(path: Path) -> torch.Tensor:
    """The array of real numbers in a .npy file: floats, or whole numbers as int64."""
    tensor = read_arrays(path, ("array",))["array"]
    return tensor if tensor.is_floating_point() else tensor.long()


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """The arrays of real numbers of an .npz file that have one of these names; that of a .npy file under the first.

    Floats and bytes keep their type, other whole numbers become int64. No pickle is read.
    """
    path = Path(path)
    size = regular_size(path)
    try:
        if path.suffix.lower() != ".npz":
            with path.open("rb") as file:
                return {names[0]: _read_array(file, size)}
        with zipfile.ZipFile(path) as archive:
            records = {record.filename.removesuffix(".npy"): record for record in archive.infolist()}
            chosen = {name: records[name] for name in names if name in records}
            unpacked = sum(record.file_size for record in chosen.values())
            if unpacked > _LARGEST_ARRAYS:
                raise ValueError(f"it unpacks to {unpacked} bytes; at most {_LARGEST_ARRAYS} are read")
            arrays = {}
            for name, record in chosen.items():
                with archive.open(record) as member:
                    arrays[name] = _read_array(member, record.file_size)
    except _UNREADABLE_ARRAYS as error:
        raise FileError(
            f"{path} is not a readable numpy file of real numbers without pickles (truncated?): {brief(error)}"
        ) from error
    if not arrays:
        raise FileError(f"{path} holds {brief(', '.join(records)) or 'nothing'}; valid: {' or '.join(names)}")
    return arrays


def _read_array(file: IO[bytes], size: int) -> torch.Tensor:
    """The array of a .npy file or member of so many bytes; one that claims more is refused before it is allocated."""
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(file)
    if dtype.kind not in "fiub":
        raise ValueError(f"it holds {dtype}")
    if math.prod(shape) * dtype.itemsize > size or min(shape, default=0) < 0:
        raise ValueError(f"it claims an array of shape {brief(shape, 80)}, and holds {size} bytes")
    file.seek(0)
    array = np.lib.format.read_array(file, allow_pickle=False)
    if dtype.kind == "f":
        return torch.from_numpy(array.astype(dtype.newbyteorder("=") if dtype.itemsize <= 8 else np.float64))
    return torch.from_numpy(array if dtype == np.uint8 else array.astype(np.int64))


class LazyTensors(Mapping[str, torch.Tensor]):
    """Named tensors of a safetensors file, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = Path(path)
        self._names: tuple[str, ...] = _read(self._path, lambda file: tuple(file.keys()))

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._names:
            raise KeyError(name)
        return _read(self._path, lambda file: file.get_tensor(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def read_metadata(path: Path) -> dict[str, str]:
    """Reads the metadata words of a safetensors file, which another process may be replacing."""
    # With torch the file is opened twice, and the second time it may be another one.
    return _read(path, lambda file: dict(file.metadata() or {}), framework="numpy")


def _check_safetensors(path: Path) -> None:
    """Refuses, before anything is allocated, a file that is no safetensors file or whose header cannot be true."""
    size = regular_size(path)
    with path.open("rb") as file:
        start = file.read(_HEADER_AT + 1)
    if start.startswith((_PICKLE_MAGIC, _ZIP_MAGIC)) and start[_HEADER_AT:] != b"{":
        raise FileError(
            f"{path} is a pickle or a torch.save archive; exhume reads weights only from safetensors "
            "(convert with safetensors.torch.save_file), because a pickle can run code"
        )
    claimed, following = int.from_bytes(start[:_HEADER_AT], "little"), max(0, size - _HEADER_AT)
    if claimed > min(following, _LONGEST_HEADER):
        raise FileError(
            f"{path} is not a readable safetensors file (truncated or damaged?): its header claims {claimed} bytes; "
            f"valid: at most the {following} that follow in the file, and never more than {_LONGEST_HEADER}"
        )


def _read(path: Path, read: Callable[[Any], Any], framework: str = "pt") -> Any:
    path = Path(path)
    try:
        _check_safetensors(path)
        with safetensors.safe_open(str(path), framework=framework) as file:
            return read(file)
    except (OSError, safetensors.SafetensorError) as error:
        raise FileError(f"{path} is not a readable safetensors file (truncated or damaged?): {brief(error)}") from error
