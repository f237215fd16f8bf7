"""Ctrl-C: every command ends with exit code 130 and a line that says what was saved and how to go on."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import typer

from exhume.support.text import duration

EXIT_CODE = 130
NOTHING = "nothing was saved by this command, and earlier files are as they were; run it again to start anew"


def end(sentence: str) -> NoReturn:
    """Prints what was saved and ends the command; another Ctrl-C does not cut the sentence short."""
    alone = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if alone else None
    try:
        print(f"interrupted: {sentence}", file=sys.stderr, flush=True)
    finally:
        if alone:
            signal.signal(signal.SIGINT, before)
    raise typer.Exit(EXIT_CODE) from None


@contextmanager
def interruptible(saved: Callable[[], Iterable[Path]], option: str = "") -> Iterator[None]:
    """Ends the command on Ctrl-C with the newest file that it saved, and the command that goes on from there.

    Args:
        saved: the files from which the command can go on, whether they exist or not.
        option: what must be added to the command for that; nothing if the same command goes on.
    """
    began = time.time()
    words = ["exhume", *sys.argv[1:]]
    resumed = not option or option in words
    try:
        yield
    except KeyboardInterrupt:
        ages: list[tuple[float, Path]] = []
        for path in saved():
            with suppress(OSError):
                ages.append((path.stat().st_mtime, path))
        written, path = max(ages, default=(0.0, Path()))
        if written < began and not (resumed and ages):  # of an earlier run that this one does not continue
            end(NOTHING)
        go_on = shlex.join(words if resumed else [*words, option])
        age = duration(max(time.time() - written, 0.0))
        end(f"the state of {age} ago is in {path}; to go on from it: {go_on}")
