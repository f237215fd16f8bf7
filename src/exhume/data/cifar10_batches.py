"""The shelf of CIFAR-10's official files: binary batches, and Python batches read without running their code."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from exhume.errors import DataError

BINARY_FOLDER = "cifar-10-batches-bin"
PYTHON_FOLDER = "cifar-10-batches-py"
CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXEL_BYTES = 3 * 32 * 32
RECORD_BYTES = 1 + PIXEL_BYTES  # one label byte, then red, green and blue planes

Bytes = npt.NDArray[np.uint8]
Batch = tuple[Bytes, Bytes]  # labels (m,), pixels (m, 3072)


def find_folder(home: Path) -> Path | None:
    """The folder below `home` that holds CIFAR-10 batches, binary ones first; None if there is none."""
    for folder in (home / BINARY_FOLDER, home / PYTHON_FOLDER):
        if batch_paths(folder):
            return folder
    return None


def batch_paths(folder: Path) -> list[Path]:
    """The training batches of a folder, in the order of their numbers."""
    pattern = re.compile(r"data_batch_(\d+)\.bin" if folder.name == BINARY_FOLDER else r"data_batch_(\d+)")
    try:
        matches = [match for path in folder.iterdir() if (match := pattern.fullmatch(path.name))]
    except OSError:
        return []
    return [folder / match.string for match in sorted(matches, key=lambda match: int(match.group(1)))]


def read_batches(folder: Path) -> Iterator[Batch]:
    """Reads the training batches of a folder, one after the other."""
    read = _read_binary if folder.name == BINARY_FOLDER else _read_python
    for path in batch_paths(folder):
        labels, pixels = read(path)
        if labels.max() >= len(CLASS_NAMES):
            record = int(np.argmax(labels >= len(CLASS_NAMES)))
            raise DataError(f"{path}: record {record} has label {labels[record]}; valid: 0 to {len(CLASS_NAMES) - 1}")
        yield labels, pixels


def read_class_names(folder: Path) -> tuple[str, ...]:
    """The ten class names of batches.meta.txt, or the official ones if that file is not there."""
    path = folder / "batches.meta.txt"
    try:
        names = tuple(path.read_text().split())
    except FileNotFoundError:
        return CLASS_NAMES
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not readable: {error}") from error
    if len(set(names)) != len(CLASS_NAMES) or len(names) != len(CLASS_NAMES):
        raise DataError(f"{path} names {len(names)} classes; valid: {len(CLASS_NAMES)} different ones")
    return names


def _read_binary(path: Path) -> Batch:
    try:
        content = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise DataError(f"{path} is not readable: {error}") from error
    if content.size == 0 or content.size % RECORD_BYTES:
        raise DataError(
            f"{path} has {content.size} bytes; valid: a multiple of {RECORD_BYTES}, above 0 (truncated download?)"
        )
    records = content.reshape(-1, RECORD_BYTES)
    return records[:, 0], records[:, 1:]


def _read_python(path: Path) -> Batch:
    try:
        with path.open("rb") as file:
            batch = _ArraysOnlyUnpickler(file, path).load()
        labels, pixels = np.asarray(batch[b"labels"]), batch[b"data"]
    except DataError:
        raise
    # A damaged pickle can make the unpickler raise nearly anything; all of it means the same here.
    except Exception as error:
        raise DataError(f"{path} is not a readable CIFAR-10 Python batch (truncated or damaged?): {error}") from error
    fits = isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8 and pixels.shape == (labels.size, PIXEL_BYTES)
    if not fits or labels.ndim != 1 or labels.size == 0 or labels.dtype.kind not in "iu":
        raise DataError(f"{path} is not a CIFAR-10 Python batch; valid: m labels and bytes of shape (m, {PIXEL_BYTES})")
    if labels.min() < 0 or labels.max() > 255:
        raise DataError(f"{path} has labels from {labels.min()} to {labels.max()}; valid: 0 to {len(CLASS_NAMES) - 1}")
    return labels.astype(np.uint8), pixels


class _ArraysOnlyUnpickler(pickle.Unpickler):
    """Rebuilds plain containers and numpy arrays; a pickle that names anything else is refused before it runs."""

    # numpy 2 moved the module, and the official files name the old one.
    _RECONSTRUCT = np.empty(0).__reduce__()[0]
    _ADMITTED = {  # noqa: RUF012 - never written to
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
        ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    }

    def __init__(self, file: BinaryIO, path: Path) -> None:
        # The official batches were pickled by Python 2: their strings are bytes.
        super().__init__(file, encoding="bytes")
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._ADMITTED[module, name]
        except KeyError:
            raise DataError(
                f"{self._path} wants to load {module}.{name}; valid: numpy arrays only, because a pickle can run code"
            ) from None
