"""Checks of what people hand in: numbers, words and rows."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, SupportsIndex, cast

from exhume.errors import InputError, unknown_name

if TYPE_CHECKING:  # a forecast checks its numbers here, and needs no torch
    import torch


def whole_number(name: str, value: object, least: int = 1) -> int:
    """The value, if it is a whole number of at least `least`."""
    # To Python, True is the number 1; `samples=True` is a mistake all the same. NumPy's whole numbers are accepted.
    number = least - 1
    if not isinstance(value, bool):
        with suppress(TypeError):  # isinstance(value, SupportsIndex) takes 100 times as long, and searches call this
            number = operator.index(cast(SupportsIndex, value))
    if number < least:
        raise InputError(f"{name} is {value!r}; valid: a whole number of at least {least}")
    return number


def positive_number(name: str, value: object) -> float:
    """The value, if it is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InputError(f"{name} is {value!r}; valid: a positive number")
    return float(value)


def one_of(name: str, value: object, valid: Iterable[str]) -> str:
    """The value, if it is one of the `valid` words."""
    words = tuple(valid)
    if not isinstance(value, str) or value not in words:
        raise unknown_name(name, value, words)
    return value


def flag(name: str, value: object) -> bool:
    """The value, if it is true or false."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}; valid: true or false")
    return value


def finite(name: str, values: torch.Tensor) -> torch.Tensor:
    """The numbers, if none is NaN or infinite."""
    wrong = int((~values.isfinite()).sum())
    if wrong:
        raise InputError(f"{wrong} of {values.numel()} numbers in {name} are NaN or infinite; valid: finite numbers")
    return values


def finite_state(whose: str, state: Mapping[str, torch.Tensor]) -> None:
    """Refuses weights of which one is NaN or infinite, with the tensor's name."""
    for name, values in state.items():
        finite(f"{whose} {name}", values)


def finite_rows(name: str, rows: torch.Tensor, width: int) -> torch.Tensor:
    """Rows (n, width) from (n, *shape) of as many numbers a row, if there is one at least and all are finite."""
    if rows.ndim < 2 or len(rows) == 0 or rows.shape[1:].numel() != width:
        raise InputError(f"{name} of shape {tuple(rows.shape)}; valid: (n, {width}), n at least 1")
    return finite(name, rows.detach().reshape(len(rows), width))
