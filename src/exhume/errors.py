"""The errors that exhume raises; each message names the value, what is valid and what to do."""

from __future__ import annotations

from collections.abc import Iterable


class ExhumeError(Exception):
    """Base class of the errors that exhume raises on purpose.

    Examples:
        >>> from exhume import DataError, ExhumeError, FileError, InputError
        >>> [issubclass(error, ExhumeError) for error in (DataError, FileError, InputError)]
        [True, True, True]
    """


class InputError(ExhumeError, ValueError):
    """A value given to exhume is invalid: wrong shape, NaN, out of range, unknown name.

    Examples:
        >>> import exhume
        >>> exhume.forecast(100, input_dim=0, num_samples=5)
        Traceback (most recent call last):
            ...
        exhume.errors.InputError: input_dim is 0; valid: a whole number of at least 1
    """


class TooFewEquations(InputError):
    """There are fewer equations than unknowns, and the attack was not asked to run nevertheless."""

    def __init__(self, counted: str) -> None:
        self.counted = counted
        super().__init__(f"{counted}; to run nevertheless, pass allow_underdetermined=True (--allow-underdetermined)")


class UnknownCount(InputError):
    """The number of samples is not given, and this attack cannot tell it from the weights."""


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
    """A file of exhume cannot be read or written, or its content is invalid.

    Examples:
        >>> from pathlib import Path
        >>> import exhume
        >>> exhume.Reconstruction.load(Path("no/such/folder"))
        Traceback (most recent call last):
            ...
        exhume.errors.FileError: ...no/such/folder...
    """


def unknown_name(kind: str, name: object, valid: Iterable[str]) -> InputError:
    """The error for a name that is not in a registry; it lists the valid names."""
    return InputError(f"unknown {kind} {name!r}; valid: {', '.join(sorted(valid))}")


def brief(error: object, limit: int = 300) -> str:
    """The text of an error, or of anything else that exhume did not write, as one printable line of bounded length."""
    try:
        text = str(error)[: 4 * limit]
    except BaseException:  # a user's exception may fail to describe itself, in any way
        text = "no description"
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."
