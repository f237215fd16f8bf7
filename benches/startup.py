"""Processor time that commands without torch take to start, compared with a Python that imports numpy and typer."""

from __future__ import annotations

import resource
import subprocess
import sys

from benches.problems import table

REPEATS = 20
COMMANDS = {
    "`import numpy, typer`": ("-c", "import numpy, typer"),
    "`import exhume`": ("-c", "import exhume"),
    "`exhume --help`": ("-m", "exhume", "--help"),
    "`exhume attack --help`": ("-m", "exhume", "attack", "--help"),
    "`exhume law`": ("-m", "exhume", "law", "--parameters", "3e6", "--dim", "3072", "--samples", "100"),
}


def processor_seconds(words: tuple[str, ...]) -> float:
    """Seconds that Python with these arguments computes; the least of several runs."""
    times = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def main() -> None:
    times = {name: processor_seconds(words) for name, words in COMMANDS.items()}
    baseline, *_ = times.values()
    rows = [(name, f"{1000 * took:.0f}", f"{took / baseline:.2f}") for name, took in times.items()]
    table(("command", "milliseconds", "times the first"), rows)
