"""`exhume law --verify`: the checks of the theory as small tables."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from exhume.cli.render import show
from exhume.theory import Check, verify
from exhume.theory.check import Cell
from exhume.theory.verification import Progress

_COLUMNS = 110  # to which statements are wrapped


def verify_law(seed: int, as_json: bool) -> None:
    """Runs all checks and prints them; exit code 1 if one of them fails."""
    with _progress() as progress:
        checks = verify(seed, progress)
    passed = all(check.passed for check in checks)
    holding = sum(check.passed for check in checks)
    text = [*map(table_of, checks), f"{holding} of {len(checks)} statements hold (seed {seed})."]
    show("\n\n".join(text), {"checks": [check.to_json() for check in checks], "passed": passed}, as_json)
    if not passed:
        raise typer.Exit(1)


def table_of(check: Check) -> str:
    """Name and verdict, statement, aligned table, and the exponents if there are any."""
    cells = [list(check.columns), *([_text(cell) for cell in row] for row in check.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    words = [any(isinstance(cell, str) for cell in column) for column in zip(*check.rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(line, widths, words, strict=True)
        ).rstrip()
        for line in cells
    ]
    verdict = "holds" if check.passed else "does not hold"
    if check.predicted is None:
        judged = f"{verdict} (tolerance {check.tolerance:.0e})"
    else:
        fitted = "none" if check.fitted is None else f"{check.fitted:.3f}"
        judged = f"fitted exponent {fitted}, predicted {check.predicted:g} (tolerance {check.tolerance:g}): {verdict}"
    stated = textwrap.wrap(f"{check.name}: {check.statement}", _COLUMNS, subsequent_indent="  ")
    return "\n".join([*stated, *(f"  {line}" for line in lines), f"  {judged}"])


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """How many checks are done, on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    with Console(stderr=True).status("checking the theory") as status:
        yield lambda done, total: status.update(f"checking the theory: {done} of {total}")
