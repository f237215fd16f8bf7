"""Text about figures: their captions, the page of results, and their configuration as JSON."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from exhume.research.paper_figures.definition import Figure
from exhume.research.paper_figures.statistics import done, failures, limits
from exhume.support.text import duration
from exhume.sweep.store import Record

_MOST_REASONS = 3
_ONE_LINE = 200  # characters of findings in the page's table


def caption(figure: Figure, scale: str, records: Sequence[Record], drawings: Sequence[str]) -> str:
    """The caption of a figure in Markdown; `drawings` are the names of the files beside it."""
    template = _templates().get_template("caption.md.j2")
    return template.render(figure=figure, scale=scale, records=records, drawings=drawings)


def page(figures: Mapping[str, Figure], complete: Mapping[str, list[Record]], drawings: Mapping[str, list[str]]) -> str:
    """The page of results: a table of all figures, then each with its drawings, findings, protocol and provenance.

    Args:
        figures: all of them, by name.
        complete: the records of those whose cells have all run.
        drawings: the paths of their drawings, relative to the page.
    """
    every = list({record.cell.key: record for records in complete.values() for record in records}.values())
    template = _templates().get_template("page.md.j2")
    return template.render(figures=figures, complete=complete, drawings=drawings, every=every)


def configuration(figure: Figure, scale: str, records: Sequence[Record]) -> dict[str, Any]:
    """Everything that is needed to run the figure again, and the result of every cell, as plain JSON."""
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
        "finished_at": _finished_at(records),
        "versions": _versions(records),
        "grids": [grid.model_dump(mode="json", exclude_none=True) for grid in chosen.grids],
        "runs": [
            {
                "key": record.cell.key,
                "state": record.state,
                "seconds": record.seconds,
                "finished_at": None if record.finished_at is None else record.finished_at.isoformat(),
                "error": record.error,
                "configuration": record.cell.to_json(),
            }
            for record in records
        ],
    }


def sentence(words: str) -> str:
    """Words with a capital letter at the beginning, unless that is a symbol, and a full stop at the end."""
    words = words.strip()
    start = words[:1].upper() if words[1:2].isalpha() else words[:1]
    return f"{start}{words[1:]}{'' if words.endswith('.') else '.'}"


def found(figure: Figure, records: Sequence[Record]) -> str:
    """The findings, how many runs a limit ended, and how many cells are missing."""
    missing = failures(records)
    if not done(records):
        return f"Nothing: {missing or 'no cell is done'}."
    left_out = f"{sentence(missing)[:-1]}; the figure is drawn from the others." if missing else ""
    return " ".join(filter(None, [figure.findings(records), limits(records), left_out]))


def command(figure: Figure, scale: str) -> str:
    """The command that makes the figure."""
    return f"exhume reproduce {figure.name} --scale {scale}"


def seconds(records: Iterable[Record]) -> float:
    """The computing time of all cells."""
    return round(sum(record.seconds or 0.0 for record in records), 1)


def anchor(heading: str) -> str:
    """The link to a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _provenance(records: Sequence[Record]) -> str:
    """Date, versions, number of cells and computing time, as the end of a sentence."""
    used = ", ".join(f"{name} {' and '.join(numbers)}" for name, numbers in _versions(records).items())
    when = (_finished_at(records) or "not yet")[:10]
    spent = f"{len(done(records))} of {len(records)} cells done in {duration(seconds(records))} of computing"
    return f"{when}{f' with {used}' if used else ''}: {spent}."


def _reasons(records: Sequence[Record]) -> str:
    """Why cells failed, each reason once."""
    errors = [(record.error or "").splitlines()[:1] for record in records if record.state == "failed"]
    different = list(dict.fromkeys(line for lines in errors for line in lines))
    listed = [f"- {failures(records)}:", *(f"  - {reason}" for reason in different[:_MOST_REASONS])]
    more = len(different) - _MOST_REASONS
    return "\n".join([*listed, *([f"  - and {more} other reasons"] if more > 0 else [])])


def _finished_at(records: Iterable[Record]) -> str | None:
    """When the last cell was finished, in UTC."""
    times = [record.finished_at for record in records if record.finished_at is not None]
    return max(times).isoformat(timespec="seconds") if times else None


def _versions(records: Iterable[Record]) -> dict[str, list[str]]:
    """The versions of the software that computed, by name."""
    used: dict[str, set[str]] = {}
    for record in records:
        for name, number in record.versions.items():
            used.setdefault(name, set()).add(number)
    return {name: sorted(numbers) for name, numbers in sorted(used.items())}


def _first_sentence(words: str) -> str:
    """The first sentence, in one line of a table."""
    first = re.split(r"(?<=[.;])\s+(?=[A-Z])", words.strip(), maxsplit=1)[0]
    return textwrap.shorten(first, _ONE_LINE, placeholder=" ...")


def _in_table(words: str) -> str:
    """Words that a Markdown table can hold."""
    return " ".join(words.replace("|", "\\|").split())


def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader(__name__, "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown, of our own text
    )
    environment.filters |= {
        "anchor": anchor,
        "duration": duration,
        "first_sentence": _first_sentence,
        "in_table": _in_table,
        "provenance": _provenance,
        "reasons": _reasons,
        "sentence": sentence,
    }
    environment.globals |= {"command": command, "failures": failures, "found": found, "seconds": seconds}
    return environment
