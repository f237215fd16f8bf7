"""What is said of a figure in words: its configuration, what was found, when and with what it was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from exhume.figures.base import Figure
from exhume.figures.findings import limits
from exhume.figures.statistics import done, failures
from exhume.sweep.cell import Spec
from exhume.sweep.duration import duration
from exhume.sweep.grid import Grid
from exhume.sweep.record import Record

_MOST_REASONS = 3
_OPEN = (
    "Widths and ratios are our choice where the paper's text gives none; a descent that does not converge ends after "
    "10^6 steps; inactive ReLUs have the slope 0.02 in its backward pass, as in the authors' code; networks are "
    "trained until their loss is 1e-7, if that comes first."
)
_HOW = "Lines are means over seeds, bands one standard deviation, faint points the seeds."


def text(figure: Figure, scale: str, records: Sequence[Record], drawings: Sequence[str]) -> str:
    """The caption in Markdown, beside the drawings of these names."""
    chosen = figure.scale(scale)
    parts = [f"# {figure.heading}", *(f"![{figure.title}]({name})" for name in drawings if name.endswith(".png"))]
    parts += [f"{figure.shows} {_HOW}" if figure.draw is not None else figure.shows]
    parts += [
        f"**Protocol ({scale} scale).** {sentence(chosen.protocol)}",
        "\n".join(f"- {line}" for line in lines(chosen.grids)),
        *([_OPEN] if scale == "paper" else []),
    ]
    parts += [f"**{claimant(figure)}.** {sentence(figure.claim)}", f"**Found.** {found(figure, records)}"]
    parts += [reasons(records)] if failures(records) else []
    parts += [f"**Made** {made(records)}\n\n```sh\n{command(figure, scale)}\n```"]
    return "\n\n".join(parts) + "\n"


def configuration(figure: Figure, scale: str, records: Sequence[Record]) -> dict[str, Any]:
    """Everything that it takes to make the figure again, and what became of every cell, as plain JSON."""
    chosen = figure.scale(scale)
    return {
        "figure": figure.name,
        "title": figure.title,
        "scale": scale,
        "shows": figure.shows,
        "claim": figure.claim,
        "protocol": chosen.protocol,
        "findings": found(figure, records),
        "command": command(figure, scale),
        "cells": len(records),
        "done": len(done(records)),
        "failed": sum(record.state == "failed" for record in records),
        "seconds": seconds(records),
        "expected_minutes": chosen.minutes,
        "finished_at": finished_at(records),
        "versions": versions(records),
        "grids": [grid.model_dump(mode="json", exclude_none=True) for grid in chosen.grids],
        "runs": [_run(record) for record in records],
    }


def sentence(words: str) -> str:
    """Words with a capital letter at the beginning, unless that is a symbol, and a full stop at the end."""
    words = words.strip()
    start = words[:1].upper() if words[1:2].isalpha() else words[:1]
    return f"{start}{words[1:]}{'' if words.endswith('.') else '.'}"


def claimant(figure: Figure) -> str:
    """Whose claim it is."""
    return "Expected" if figure.beyond else "The paper's claim"


def found(figure: Figure, records: Sequence[Record]) -> str:
    """The findings, and how many cells they lack."""
    if not done(records):
        return f"Nothing: {failures(records) or 'no cell is done'}."
    missing = failures(records)
    words = f"{figure.findings(records)} {limits(records)}".strip()
    return f"{words} {missing[0].upper()}{missing[1:]}; the figure is drawn from the others." if missing else words


def reasons(records: Sequence[Record]) -> str:
    """Why cells failed, each reason once."""
    errors = [(record.error or "").splitlines()[:1] for record in records if record.state == "failed"]
    different = list(dict.fromkeys(line for lines in errors for line in lines))
    listed = [f"- {failures(records)}:", *(f"  - {reason}" for reason in different[:_MOST_REASONS])]
    more = len(different) - _MOST_REASONS
    return "\n".join([*listed, *([f"  - and {more} other reasons"] if more > 0 else [])])


def made(records: Sequence[Record]) -> str:
    """When, with which versions, from how many cells and in what time, as half a sentence."""
    used = ", ".join(f"{name} {' and '.join(numbers)}" for name, numbers in versions(records).items())
    when = (finished_at(records) or "not yet")[:10]
    spent = f"{len(done(records))} of {len(records)} cells done in {duration(seconds(records))} of computing"
    return f"{when}{f' with {used}' if used else ''}: {spent}."


def command(figure: Figure, scale: str) -> str:
    """The command that makes it again."""
    return f"exhume reproduce {figure.name} --scale {scale}"


def lines(grids: Iterable[Grid]) -> list[str]:
    """Every grid in one line: its name, data, victims, widths, attacks with their options, seeds."""
    return [_line(grid) for grid in grids]


def seconds(records: Iterable[Record]) -> float:
    """The time that the experiments took together."""
    return round(sum(record.seconds or 0.0 for record in records), 1)


def finished_at(records: Iterable[Record]) -> str | None:
    """When the last cell was finished, in UTC."""
    times = [record.finished_at for record in records if record.finished_at is not None]
    return max(times).isoformat(timespec="seconds") if times else None


def versions(records: Iterable[Record]) -> dict[str, list[str]]:
    """The versions that computed, by name."""
    found: dict[str, set[str]] = {}
    for record in records:
        for name, number in record.versions.items():
            found.setdefault(name, set()).add(number)
    return {name: sorted(numbers) for name, numbers in sorted(found.items())}


def _run(record: Record) -> dict[str, Any]:
    return {
        "key": record.cell.key,
        "state": record.state,
        "seconds": record.seconds,
        "finished_at": None if record.finished_at is None else record.finished_at.isoformat(),
        "error": record.error,
        "configuration": record.cell.to_json(),
    }


def _line(grid: Grid) -> str:
    widths = f"p = {_listed(grid.features)}" if grid.features else f"p/(d n) = {_listed(grid.ratio or ())}"
    parts = (
        ", ".join(_spec(each, "name") for each in grid.data),
        ", ".join(_spec(each, "kind") for each in grid.victim),
        widths,
        ", ".join(_spec(each, "method") for each in grid.attack),
        f"seeds {_listed(grid.seeds)}",
    )
    return f"{grid.name}: {'; '.join(parts)}"


def _spec(spec: Spec, name: str) -> str:
    """A part of a cell: its name, and in brackets what differs from the defaults."""
    values = spec.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    label = str(getattr(spec, name))
    settings = [f"{key} {_value(value)}" for key, value in values.items() if key != name]
    return f"{label} ({', '.join(settings)})" if settings else label


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_value(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return _listed(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(_value, values))
