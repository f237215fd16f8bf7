"""What several commands parse alike: whole numbers, and options written as name=value."""

from __future__ import annotations

import json
from typing import Any

from exhume.errors import InputError

LARGEST = 1e18  # whole number on the command line: products of three are far from overflowing


def parse_pairs(pairs: list[str] | None) -> dict[str, Any]:
    """{"max_steps": 5000} from ["max-steps=5000"]; a value that is not JSON stays a string."""
    options: dict[str, Any] = {}
    for pair in pairs or []:
        name, text = split_pair(pair)
        try:
            options[name.replace("-", "_")] = json.loads(text)
        except ValueError:
            options[name.replace("-", "_")] = text
    return options


def split_pair(pair: str) -> tuple[str, str]:
    """("max-steps", "5000") from "max-steps=5000"."""
    name, separator, text = pair.partition("=")
    if not separator:
        raise InputError(f"option {pair!r} is not of the form name=value")
    return name, text


def whole(text: str, option: str, least: int | None = None) -> int:
    """The whole number given for an option, written 3000000 or 3e6."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number.is_integer():
        raise InputError(f"{option} {text!r} is not a whole number; write for instance 3000000 or 3e6")
    if number > LARGEST:
        raise InputError(f"{option} is {text}; valid: at most 1e18")
    if least is not None and number < least:
        raise InputError(f"{option} is {text}; valid: a whole number of at least {least}")
    return int(number)
