"""Limits of size: what a file may take, said in words that name the option to raise it."""

from __future__ import annotations

from pathlib import Path

from exhume.errors import FileError, InputError, brief
from exhume.features import parse_bytes

DEFAULT_LIMIT = 4 * 2**30


def size_limit(size: int | str) -> int:
    """A limit in bytes from a number or a text like "500MB" or "1.5GiB"."""
    try:
        limit = parse_bytes(size)
    except (InputError, ValueError, OverflowError):
        limit = 0
    if limit < 1:
        raise InputError(f"--max-size {brief(size, 40)!r} is not a size above 0; write for instance '500MB' or '4GiB'")
    return limit


def readable_bytes(size: int) -> str:
    """A number of bytes for people: "3.7 MiB"."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"


def check_limit(path: Path, verb: str, size: int, limit: int) -> None:
    """Refuses a file that is, or unpacks to, more than the limit."""
    if size > limit:
        raise FileError(
            f"{path} {verb} {readable_bytes(size)} ({size} bytes), more than the limit of {readable_bytes(limit)} "
            f"({limit} bytes); raise it with --max-size if the file is what it should be"
        )
