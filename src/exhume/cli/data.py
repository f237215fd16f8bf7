"""`exhume data`: the data sets there are, and fetching the one that can be fetched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from exhume import data as data_sets
from exhume.cli.render import Json, show
from exhume.errors import unknown_name

_FETCHABLE = {"cifar10": data_sets.fetch_cifar10}


def data(
    fetch: Annotated[str | None, typer.Option(help="Download a data set into the cache folder: cifar10.")] = None,
    json: Json = False,
) -> None:
    """List the data sets and where they were found; optionally download one.

    Example: exhume data --fetch cifar10
    """
    if fetch is not None:
        if fetch not in _FETCHABLE:
            raise unknown_name("data set to fetch", fetch, _FETCHABLE)
        with _download_bar(f"fetching {fetch}") as report:
            _FETCHABLE[fetch](data_sets.data_home(), progress=report)
    infos = data_sets.available()
    lines = [f"data folder: {data_sets.data_home()} (set EXHUME_DATA to change it)"]
    for info in infos:
        lines += [f"  {info.name:<14} {info.summary}", f"  {'':<14} {info.location}"]
        if not info.found:
            lines.append(f"  {'':<14} to get it: {info.how_to_get}")
    show("\n".join(lines), {"home": str(data_sets.data_home()), "data": [asdict(info) for info in infos]}, json)


@contextmanager
def _download_bar(label: str) -> Iterator[Callable[[int, int | None], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
