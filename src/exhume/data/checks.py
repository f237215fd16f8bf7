"""The data sets' door: checks of the options that every loader shares."""

from __future__ import annotations

from collections.abc import Iterable

from exhume.errors import InputError, unknown_name


def whole_number(option: str, value: object, least: int = 1) -> int:
    """Returns `value` if it is a whole number of at least `least`."""
    # bool is an int to Python; `samples=True` is a slip, not a one.
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{option} is {value!r}; valid: a whole number of at least {least}")
    return value


def one_of(option: str, value: object, valid: Iterable[str]) -> str:
    """Returns `value` if it is one of the `valid` words."""
    words = tuple(valid)
    if not isinstance(value, str) or value not in words:
        raise unknown_name(option, value, words)
    return value
