"""The door of the networks: checks of the sizes that their constructors take."""

from __future__ import annotations

import math
from typing import Any

from exhume.errors import InputError


def whole_number(name: str, value: object, least: int = 1) -> int:
    """The value, if it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} is {value!r}; valid: a whole number of at least {least}")
    return value


def positive_number(name: str, value: object) -> float:
    """The value, if it is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InputError(f"{name} is {value!r}; valid: a positive number")
    return float(value)


def flag(name: str, value: object) -> bool:
    """The value, if it is true or false."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}; valid: true or false")
    return value


def square_image(image_shape: Any, least_side: int) -> tuple[int, int, int]:
    """The shape (channels, side, side) as a tuple, if it is one."""
    shape = tuple(image_shape) if isinstance(image_shape, (tuple, list)) else ()
    whole = all(isinstance(side, int) and not isinstance(side, bool) and side >= 1 for side in shape)
    if len(shape) != 3 or not whole or shape[1] != shape[2] or shape[1] < least_side:
        raise InputError(
            f"image_shape is {image_shape!r}; valid: (channels, side, side) with a side of at least {least_side}"
        )
    return shape[0], shape[1], shape[2]
