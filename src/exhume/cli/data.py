"""`exhume data`: list the data sets, and download the one that can be downloaded."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from exhume.cli.options import Json
from exhume.cli.render import progress, show
from exhume.errors import unknown_name
from exhume.support.text import size


def data(
    fetch: Annotated[str | None, typer.Option(help="Download a data set into the data folder: cifar10.")] = None,
    json: Json = False,
) -> None:
    """List the data sets and where they were found. Optionally download one.

    Example: exhume data --fetch cifar10
    """
    from exhume import data as data_sets

    downloads = {"cifar10": data_sets.fetch_cifar10}
    home = data_sets.data_home()
    if fetch is not None:
        if fetch not in downloads:
            raise unknown_name("data set to fetch", fetch, downloads)
        with progress(f"fetching {fetch}") as update:
            downloads[fetch](
                home, progress=lambda done, total: update(done, total or done, f"{size(done)} of {size(total or done)}")
            )
    infos = data_sets.available()
    lines = [f"data folder: {home} (set EXHUME_DATA to change it)"]
    for info in infos:
        lines += [f"  {info.name:<14} {info.summary}", f"  {'':<14} {info.location}"]
        if not info.found:
            lines.append(f"  {'':<14} to get it: {info.how_to_get}")
    show("\n".join(lines), {"home": str(home), "data": [asdict(info) for info in infos]}, json)
