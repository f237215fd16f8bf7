"""Rendering for the command line: text for people, one JSON object for machines, progress on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from exhume.attacks import Progress as Report
from exhume.attacks import ProgressEvent

# Seconds between lines of progress where there is no terminal to redraw.
_PLAIN_EVERY = 10.0

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else.")]


def show(text: str, value: dict[str, Any], as_json: bool) -> None:
    """Prints the text, or the value as one JSON object."""
    print(json.dumps(value, allow_nan=False) if as_json else text)


@contextmanager
def progress_of(label: str) -> Iterator[Report]:
    """A bar on a terminal, a line every few seconds elsewhere; both on standard error."""
    if not sys.stderr.isatty():
        yield _plain_lines(label)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("step {task.completed:.0f}/{task.total:.0f}  loss {task.fields[loss]:.2e}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=1, loss=1.0)

        def update(event: ProgressEvent) -> None:
            bar.update(task, total=max(event.total, 1), completed=event.step, loss=event.loss)

        yield update


def _plain_lines(label: str) -> Report:
    last = time.monotonic()

    def update(event: ProgressEvent) -> None:
        nonlocal last
        if time.monotonic() - last >= _PLAIN_EVERY:
            last = time.monotonic()
            print(
                f"{label}: step {event.step} of at most {event.total}, loss {event.loss:.2e}, "
                f"{event.passes:.0f} passes",
                file=sys.stderr,
            )

    return update
