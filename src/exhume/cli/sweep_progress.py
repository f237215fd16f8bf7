"""Progress of a sweep on standard error: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from exhume.sweep.duration import duration
from exhume.sweep.run import Progress as Report
from exhume.sweep.run import SweepProgress
from exhume.sweep.store import Store

# Seconds between lines of progress where there is no terminal to redraw.
_PLAIN_EVERY = 30.0
_INTERRUPTED = 130


@contextmanager
def interruptible(store: Store, sweep: str) -> Iterator[None]:
    """Ends the command on Ctrl-C with a line that says how far the sweep is."""
    try:
        yield
    except KeyboardInterrupt:
        # It may have come before the sweep was registered.
        counts = store.counts(sweep) if sweep in store.sweeps() else None
        far = f"{counts.done} of {counts.total} cells are done" if counts else "no cell is done"
        print(f"interrupted: {far}; run again to go on", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED) from None


@contextmanager
def sweep_progress_of(label: str) -> Iterator[Report]:
    """A sweep's progress; failed cells are told at once."""
    if not sys.stderr.isatty():
        yield _plain_lines(label)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} cells{task.fields[more]}"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=1, more="")

        def update(event: SweepProgress) -> None:
            if event.latest.startswith("failed"):
                console.print(event.latest, markup=False, highlight=False)
            bar.update(task, total=max(event.total, 1), completed=event.done + event.failed, more=_more(event))

        yield update


def _plain_lines(label: str) -> Report:
    last = time.monotonic()

    def update(event: SweepProgress) -> None:
        nonlocal last
        if event.latest.startswith("failed"):
            print(f"{label}: {event.latest}", file=sys.stderr)
        if time.monotonic() - last >= _PLAIN_EVERY:
            last = time.monotonic()
            print(f"{label}: {event.done + event.failed} of {event.total} cells{_more(event)}", file=sys.stderr)

    return update


def _more(event: SweepProgress) -> str:
    failed = f", {event.failed} failed" if event.failed else ""
    left = "" if event.seconds_left is None else f", about {duration(event.seconds_left)} left"
    return f"{failed}, {event.running} under way{left}"
