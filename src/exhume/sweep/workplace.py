"""Where cells are to be computed, checked without starting anything: an address, or a number of processes."""

from __future__ import annotations

import re

from exhume.errors import InputError


def check_workplace(scheduler: str | None, workers: int | None) -> None:
    """Raises an InputError if no run could start with these, whatever answers at the address."""
    if scheduler is not None and workers is not None:
        raise InputError(f"workers is {workers}, but those of {scheduler} are started elsewhere; give one of the two")
    if scheduler is not None and not re.fullmatch(r"(tcp|tls)://.+:\d+", scheduler):
        raise InputError(f"scheduler is {scheduler!r}; valid: an address such as tcp://127.0.0.1:8786")
    if workers is not None and workers < 1:
        raise InputError(f"workers is {workers}; valid: a whole number of at least 1")
