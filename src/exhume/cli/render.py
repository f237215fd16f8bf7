"""Rendering for the command line: text for people, one JSON object for machines, progress on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from exhume.attacks import Progress as Report

# Seconds between lines of progress where there is no terminal to redraw.
_PLAIN_EVERY = 10.0

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else.")]


def show(text: str, value: dict[str, Any], as_json: bool) -> None:
    """Prints the text, or the value as one JSON object."""
    print(json.dumps(value, allow_nan=False) if as_json else text)


@contextmanager
def progress_of(label: str) -> Iterator[Report]:
    """An attack's progress: a bar on a terminal, a line every few seconds elsewhere; both on standard error."""
    with _progress(label) as update:
        yield lambda event: update(event.step, event.total, event.loss, f", {event.passes:.0f} passes")


@contextmanager
def training_progress_of(label: str) -> Iterator[Callable[[int, int, float], None]]:
    """A training's progress, shown likewise."""
    with _progress(label) as update:
        yield lambda step, total, loss: update(step, total, loss, "")


@contextmanager
def _progress(label: str) -> Iterator[Callable[[int, int, float, str], None]]:
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
        yield lambda step, total, loss, _: bar.update(task, total=max(total, 1), completed=step, loss=loss)


def _plain_lines(label: str) -> Callable[[int, int, float, str], None]:
    last = time.monotonic()

    def update(step: int, total: int, loss: float, more: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _PLAIN_EVERY:
            last = time.monotonic()
            print(f"{label}: step {step} of at most {total}, loss {loss:.2e}{more}", file=sys.stderr)

    return update
