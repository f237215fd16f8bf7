"""Options written as name=value: shared by the commands that pass them on to a data set or an attack."""

from __future__ import annotations

import json
from typing import Any

from exhume.errors import InputError


def parse_pairs(pairs: list[str] | None) -> dict[str, Any]:
    """{"max_steps": 5000} from ["max-steps=5000"]; a value that is not JSON stays a string."""
    options: dict[str, Any] = {}
    for pair in pairs or []:
        name, separator, text = pair.partition("=")
        if not separator:
            raise InputError(f"option {pair!r} is not of the form name=value")
        try:
            options[name.replace("-", "_")] = json.loads(text)
        except ValueError:
            options[name.replace("-", "_")] = text
    return options
