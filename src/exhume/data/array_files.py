"""The headers of numpy files: what they claim is checked before numpy allocates it."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from exhume.errors import DataError, brief

# What numpy, zipfile and zlib raise for files that are damaged; a header is Python text, which has errors of its own.
UNREADABLE = (
    OSError, ValueError, EOFError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError, KeyError,
    NotImplementedError, RuntimeError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
# What all arrays of a file may take in memory.
LARGEST = 16 * 2**30
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")


def check_claims(file: Path) -> None:
    """Refuses arrays that claim more numbers than their file holds, and archives that unpack to too many bytes."""
    with file.open("rb") as opened:
        if opened.read(4) not in _ZIP:
            opened.seek(0)
            _check_claim(opened, file.stat().st_size, file)
            return
    with zipfile.ZipFile(file) as archive:
        records = archive.infolist()
        unpacked = sum(record.file_size for record in records)
        if unpacked > LARGEST:
            raise DataError(f"{file} unpacks to {unpacked} bytes; valid: at most {LARGEST}")
        for record in records:
            with archive.open(record) as member:
                _check_claim(member, record.file_size, file)


def _check_claim(opened: IO[bytes], size: int, file: Path) -> None:
    if opened.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
        return  # a pickle or some other file, which numpy refuses itself
    opened.seek(0)
    version = np.lib.format.read_magic(opened)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(opened)
    claimed = math.prod(shape) * dtype.itemsize
    if claimed > size or min(shape, default=0) < 0:
        raise DataError(
            f"{file} claims an array of shape {brief(shape, 80)}, {brief(claimed, 30)} bytes, "
            f"but holds {size} (damaged?)"
        )
