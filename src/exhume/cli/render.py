"""What the commands print: text or one JSON object on standard output, progress on standard error."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exhume.cli.interruption import end
from exhume.support.text import duration

if TYPE_CHECKING:
    from exhume.attacks import Progress as AttackProgress
    from exhume.attacks import ProgressEvent
    from exhume.sweep.run import Progress as SweepCallback
    from exhume.sweep.run import SweepProgress
    from exhume.sweep.store import Store

# Seconds between lines of progress where there is no terminal to redraw.
_PLAIN_EVERY = 10.0
# Length of the bar of an attack, in steps of its display.
_BAR = 1000
# Whether --quiet was given.
_quiet: ContextVar[bool] = ContextVar("quiet", default=False)

Update = Callable[[int, int, str], None]


def show(text: str, value: dict[str, Any], as_json: bool) -> None:
    """Prints the text, or the value as one JSON object."""
    print(json.dumps(value, allow_nan=False) if as_json else text)


def set_quiet(wanted: bool) -> None:
    """Shows no progress and no notices on standard error from now on, or shows them again."""
    _quiet.set(wanted)


def _quiet_command(
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", callback=set_quiet, expose_value=False, help="Print results and errors, but no progress."
        ),
    ] = False,
) -> None: ...


def quiet_option() -> Any:
    """The option --quiet, which is added to every command."""
    holder = typer.Typer(add_completion=False)
    holder.command()(_quiet_command)
    return typer.main.get_command(holder).params[0]


def notice(text: str) -> None:
    """Prints a line on standard error, unless the command is to be quiet."""
    if not _quiet.get():
        print(text, file=sys.stderr)


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """Sends what other code prints to standard error, so that standard output holds the command's result alone."""
    before = sys.stdout
    try:
        number = before.fileno()
    except (OSError, ValueError):  # not a file
        number = None
    before.flush()
    kept = os.dup(number) if number is not None else None
    sys.stdout = sys.stderr
    if number is not None:
        os.dup2(2, number)  # for programs and libraries that print without Python
    try:
        yield
    finally:
        sys.stdout = before
        if kept is not None and number is not None:
            os.dup2(kept, number)
            os.close(kept)


def cell(value: Any, form: str) -> str:
    """A value in a table: a dash for None, yes or no, and numbers with a fraction in the given format."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format(value, form) if isinstance(value, float) else str(value)


@contextmanager
def progress(label: str) -> Iterator[Update]:
    """Yields update(done, total, words): a bar on a terminal, elsewhere a line every few seconds."""
    if _quiet.get():
        yield lambda done, total, words: None
        return
    if not sys.stderr.isatty():
        yield _plain_lines(label)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=1, words="")
        yield lambda done, total, words: bar.update(task, total=max(total, 1), completed=done, words=words)


def _plain_lines(label: str) -> Update:
    last = time.monotonic()

    def update(done: int, total: int, words: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _PLAIN_EVERY:
            last = time.monotonic()
            print(f"{label}: {words}", file=sys.stderr)

    return update


@contextmanager
def attack_progress(label: str) -> Iterator[AttackProgress]:
    """Shows the progress of an attack, with the time that it will take at most."""
    with progress(label) as update:
        yield attack_events(update)


def attack_events(update: Update) -> AttackProgress:
    """What an attack calls with its events; `update` shows them in words."""
    from exhume.attacks import Pace

    pace = Pace()

    def report(event: ProgressEvent) -> None:
        words = pace.update(event)
        share = pace.elapsed / (pace.elapsed + pace.left) if pace.elapsed else 0.0
        update(round(_BAR * share), _BAR, words)

    return report


@contextmanager
def seed_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Shows the progress of a search for a seed, with the time that trying all of them will take."""
    first: tuple[float, int] | None = None
    with progress(label) as update:

        def report(tried: int, total: int) -> None:
            nonlocal first
            now = time.monotonic()
            began, before = first = first or (now, tried)  # a search that continues has tried some before
            seconds = (now - began) * (total - tried) / max(tried - before, 1)
            left = f", at most {duration(seconds)} left" if tried > before else ""
            update(tried, total, f"{tried:,} of {total:,} seeds{left}")

        yield report


@contextmanager
def training_progress(label: str) -> Iterator[Callable[[int, int, float], None]]:
    """Shows the progress of a training."""
    with progress(label) as update:
        yield lambda step, total, loss: update(step, total, f"step {step:,} of at most {total:,}, loss {loss:.2e}")


@contextmanager
def sweep_progress(label: str) -> Iterator[SweepCallback]:
    """Shows the progress of a sweep; a failed cell is printed at once."""
    with progress(label) as update:

        def report(event: SweepProgress) -> None:
            if event.latest.startswith("failed"):
                notice(f"{label}: {event.latest}")
            finished = event.done + event.failed
            failed = f", {event.failed} failed" if event.failed else ""
            left = "" if event.seconds_left is None else f", about {duration(event.seconds_left)} left"
            update(finished, event.total, f"{finished} of {event.total} cells{failed}, {event.running} under way{left}")

        yield report


@contextmanager
def interruptible_sweep(store: Store, sweep: str) -> Iterator[None]:
    """Ends the command on Ctrl-C with a line that says how many cells of the sweep are done."""
    try:
        yield
    except KeyboardInterrupt:
        # The sweep may not have been registered yet.
        counts = store.counts(sweep) if sweep in store.sweeps() else None
        done = f"{counts.done} of {counts.total} cells are done" if counts else "no cell is done"
        end(f"{done}; run again to go on")
