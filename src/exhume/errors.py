"""The errors exhume raises: one small tree, each message naming the value, the limit and what is valid."""

from __future__ import annotations

from collections.abc import Iterable


class ExhumeError(Exception):
    """Root of every error that exhume raises on purpose."""


class InputError(ExhumeError, ValueError):
    """A value handed to exhume is not usable: wrong shape, NaN, out of range, unknown name."""


class DataError(ExhumeError):
    """A data set is missing, truncated or not in its official format."""


class FileError(ExhumeError):
    """A file of exhume's own cannot be read or written, or holds something else than it should."""


def unknown_name(kind: str, name: object, valid: Iterable[str]) -> InputError:
    """The error for a name that is not in a registry; it lists the names that are."""
    return InputError(f"unknown {kind} {name!r}; valid: {', '.join(sorted(valid))}")


def brief(error: object, limit: int = 300) -> str:
    """What an error (or anything else that was not written by us) says, on one printable line of bounded length."""
    try:
        text = str(error)[: 4 * limit]
    except BaseException:  # a user's exception may fail to describe itself, in any way
        text = "no description"
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."
