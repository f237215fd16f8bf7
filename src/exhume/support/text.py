"""Numbers, sizes, times and tables as people read them."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Collection, Iterable, Sequence

from exhume.errors import InputError, brief

# What a size looks like; pydantic's ByteSize, which knows the units, ignores what follows the first number and unit.
_SIZE = re.compile(r"\s*[0-9]*\.?[0-9]+\s*[A-Za-z]*\s*")
_DECIMAL = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")
# (seconds, name), the largest first; a unit is used from one and a half of it on.
_LONG_TIMES = (
    (365.25 * 86400, "year"),
    (30 * 86400, "month"),
    (7 * 86400, "week"),
    (86400, "day"),
    (3600, "hour"),
    (60, "minute"),
)


def parse_bytes(size: int | float | str, name: str = "memory budget") -> int:
    """A number of bytes from `2_000_000`, `"500MB"`, `"1.5 GiB"`; `name` is what an error calls it."""
    from pydantic import ByteSize, TypeAdapter, ValidationError  # takes longer to load than a forecast to make

    shown = brief(repr(size), 40)
    not_a_size = InputError(f"{name} {shown} is not a size; write for instance '500MB', '4GB' or '1.5GiB'")
    if isinstance(size, str) and not _SIZE.fullmatch(size):
        raise not_a_size
    try:
        count = float(TypeAdapter(ByteSize).validate_python(size)) if isinstance(size, str) else float(size)
    except (ValidationError, OverflowError) as error:
        raise not_a_size from error
    if not 0 <= count < math.inf:
        raise InputError(f"{name} {shown} must be finite and not negative")
    return int(count)


def size(count: float) -> str:
    """Bytes in decimal units, three digits: "11.3 GB"."""
    step = 0
    while count >= 999.5 and step < len(_DECIMAL) - 1:
        count, step = count / 1000, step + 1
    return f"{count:.3g} {_DECIMAL[step]}"


def rate(count: float, unit: str) -> str:
    """A number with a unit and its prefix: "85 Gflop/s" from 8.5e10 and "flop/s"."""
    for power, letter in ((15, "P"), (12, "T"), (9, "G"), (6, "M")):
        if count >= 10**power:
            return f"{count / 10**power:.3g} {letter}{unit}"
    return f"{count:.3g} {unit}"


def number(count: float) -> str:
    """A count: "921,600", and "4.52e+11" from a billion on."""
    return f"{count:,.0f}" if count < 1e9 else f"{count:.3g}"


def plural(count: int, noun: str, several: str | None = None) -> str:
    """A count with its noun: "1 sample", "1,200 samples"; `several` is the plural if it is not noun + s."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it: 3.4 s, 90 min, 2.5 h, 12 days."""
    for unit, length, most in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < most:
            return f"{_short(seconds / length)} {unit}"
    return f"{_short(seconds / 86_400)} days"


def long_duration(seconds: float) -> str:
    """A time in words, two digits of it: "40 seconds", "12 minutes", "3,400 years"."""
    for unit, name in _LONG_TIMES:
        if seconds >= 1.5 * unit:
            return _counted(seconds / unit, name)
    return _counted(seconds, "second") if seconds >= 1 else "less than a second"


def estimated_duration(seconds: float) -> str:
    """A time that is an estimate: "about 12 minutes", "less than a second"."""
    return f"about {long_duration(seconds)}" if seconds >= 1 else long_duration(seconds)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, left: int | Collection[str] = 1) -> str:
    """A table in plain text, without lines: the first `left` columns, or those so named, aligned to the left."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for index, column in enumerate(columns):
        to_left = index < left if isinstance(left, int) else column in left
        drawn.add_column(Text(column), justify="left" if to_left else "right", no_wrap=True)
    for row in rows:
        drawn.add_row(*(Text(str(cell)) for cell in row))
    page = io.StringIO()
    Console(file=page, width=100_000, color_system=None).print(drawn)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 10 else f"{value:,.0f}"


def _counted(count: float, name: str) -> str:
    rounded = round(count) if count < 100 else float(f"{count:.2g}")
    if rounded >= 1e6:
        return f"{rounded:.0e} {name}s"
    return f"{rounded:,.0f} {name}{'' if rounded == 1 else 's'}"
