"""Times in words: of cells, of sweeps and of what is left of them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """A time in the unit that suits it: 3.4 s, 90 min, 2.5 h, 12 days."""
    for unit, length, most in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < most:
            return f"{_short(seconds / length)} {unit}"
    return f"{_short(seconds / 86_400)} days"


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0") if number < 10 else f"{number:,.0f}"
