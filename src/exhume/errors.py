"""The errors exhume raises: one small tree, each message naming the value, the limit and what is valid."""

from __future__ import annotations

from collections.abc import Iterable


class ExhumeError(Exception):
    """Root of every error that exhume raises on purpose.

    Examples:
        >>> from exhume import DataError, ExhumeError, FileError, InputError
        >>> [issubclass(error, ExhumeError) for error in (DataError, FileError, InputError)]
        [True, True, True]
    """


class InputError(ExhumeError, ValueError):
    """A value handed to exhume is not usable: wrong shape, NaN, out of range, unknown name.

    Examples:
        >>> import exhume
        >>> exhume.forecast(100, input_dim=0, num_samples=5)
        Traceback (most recent call last):
            ...
        exhume.errors.InputError: input_dim is 0; valid: a whole number of at least 1
    """


class TooFewEquations(InputError):
    """Fewer equations than unknowns: an attack refuses, unless it is told to go on."""

    def __init__(self, counted: str) -> None:
        self.counted = counted
        super().__init__(f"{counted}; to go on all the same pass allow_underdetermined=True (--allow-underdetermined)")


class DataError(ExhumeError):
    """A data set is missing, truncated or not in its official format.

    Examples:
        >>> from exhume import data
        >>> data.load("folder", path="no/such/folder")
        Traceback (most recent call last):
            ...
        exhume.errors.DataError: ...no/such/folder...
    """


class FileError(ExhumeError):
    """A file of exhume's own cannot be read or written, or holds something else than it should.

    Examples:
        >>> from pathlib import Path
        >>> import exhume
        >>> exhume.Reconstruction.load(Path("no/such/folder"))
        Traceback (most recent call last):
            ...
        exhume.errors.FileError: ...no/such/folder...
    """


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
