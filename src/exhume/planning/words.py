"""Times, sizes and large numbers as people say them."""

from __future__ import annotations

_SIZES = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")
# (seconds, name), the largest first; a unit is used from one and a half of it on.
_TIMES = (
    (365.25 * 86400, "year"),
    (30 * 86400, "month"),
    (7 * 86400, "week"),
    (86400, "day"),
    (3600, "hour"),
    (60, "minute"),
)


def duration(seconds: float) -> str:
    """A time in words, two digits of it: "40 seconds", "12 minutes", "3,400 years"."""
    for unit, name in _TIMES:
        if seconds >= 1.5 * unit:
            return _counted(seconds / unit, name)
    return _counted(seconds, "second") if seconds >= 1 else "less than a second"


def about(seconds: float) -> str:
    """A time as an estimate: "about 12 minutes", "less than a second"."""
    return f"about {duration(seconds)}" if seconds >= 1 else duration(seconds)


def size(count: float) -> str:
    """Bytes in decimal units, three digits: "11.3 GB"."""
    step = 0
    while count >= 999.5 and step < len(_SIZES) - 1:
        count, step = count / 1000, step + 1
    return f"{count:.3g} {_SIZES[step]}"


def rate(count: float, unit: str) -> str:
    """A number with a unit and its prefix: "85 Gflop/s" from 8.5e10 and "flop/s"."""
    for power, letter in ((15, "P"), (12, "T"), (9, "G"), (6, "M")):
        if count >= 10**power:
            return f"{count / 10**power:.3g} {letter}{unit}"
    return f"{count:.3g} {unit}"


def number(count: float) -> str:
    """A count: "921,600", and "4.52e+11" from a billion on."""
    return f"{count:,.0f}" if count < 1e9 else f"{count:.3g}"


def _counted(count: float, name: str) -> str:
    rounded = round(count) if count < 100 else float(f"{count:.2g}")
    if rounded >= 1e6:
        return f"{rounded:.0e} {name}s"
    return f"{rounded:,.0f} {name}{'' if rounded == 1 else 's'}"
