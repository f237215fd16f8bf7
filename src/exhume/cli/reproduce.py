"""`exhume reproduce`: the paper's figures, run, drawn and described."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from exhume import figures as registry
from exhume.cli.render import Json, show
from exhume.cli.sweep_progress import interruptible, sweep_progress_of
from exhume.errors import InputError
from exhume.figures import Figure, Scale, caption
from exhume.figures import page as results
from exhume.figures.output import Published
from exhume.figures.run import data_of, expected_minutes, require_data, sweep_of
from exhume.figures.run import reproduce as run
from exhume.sweep.duration import duration
from exhume.sweep.store import Store
from exhume.sweep.workplace import check_workplace

_WIDTH = 110  # letters in a line of the list
_FOLDER, _STORE, _PAGE = Path("figs"), "reproduce.sqlite", Path("docs/reproduction.md")


def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(help="Figures: fig1 to fig17, names beyond the paper, all, beyond; or page, the results page."),
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the figures, their protocols and times.")] = False,
    scale: Annotated[str, typer.Option(help="laptop (two cores, minutes) or paper (the exact protocol).")] = "laptop",
    out: Annotated[Path | None, typer.Option(help="Folder of the figures (figs), or file of the page.")] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="File that keeps every finished cell; reproduce.sqlite in the folder if left out."),
    ] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, tcp://host:port.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes on this machine; as many as cores if left out.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed cells again.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a run at the paper's scale.")] = False,
    json: Json = False,
) -> None:
    """Run figures of the paper and draw them: the paper's method and ours side by side.

    A killed run goes on where it was when it is started again. Exit code 1 if cells failed.

    Example: exhume reproduce fig3 --scale laptop --out figs
    """
    if scale not in registry.SCALES:
        raise InputError(f"unknown scale {scale!r}; valid: {', '.join(registry.SCALES)}")
    if list_them:
        _list(figures or ["all"], json)
    elif not figures:
        raise InputError(f"say which figures; valid: {', '.join(registry.FIGURES)}, beyond, all, page; or --list")
    elif figures == ["page"]:
        _page(store or _FOLDER / _STORE, out or _PAGE, json)
    else:
        check_workplace(scheduler, workers)
        folder = out or _FOLDER
        chosen, left_out = _chosen(figures, scale)
        if scheduler is None:
            require_data(chosen, scale)
        if scale == "paper" and not yes:
            _ask(chosen, scale, json)
        options: dict[str, Any] = {"scheduler": scheduler, "workers": workers, "retry_failed": retry_failed}
        published = _run(chosen, scale, store or folder / _STORE, folder, **options)
        value = {
            "scale": scale,
            "store": str(store or folder / _STORE),
            "figures": [each.to_json() for each in published],
            "left_out": left_out,
        }
        show(_table(published, left_out, scale), value, json)
        if any(each.failed for each in published):
            raise typer.Exit(1)


def _chosen(names: Sequence[str], scale: str) -> tuple[list[Figure], list[str]]:
    """The figures, each once; and those of a group that do not have the scale."""
    found: dict[str, Figure] = {}
    left_out: list[str] = []
    for name in names:
        members = registry.find(name)
        for figure in members:
            if len(members) > 1 and scale not in figure.scales():
                left_out.append(figure.name)
            else:
                figure.scale(scale)
                found[figure.name] = figure
    if not found:
        raise InputError(f"none of {', '.join(names)} has the scale {scale!r}")
    return list(found.values()), left_out


def _run(chosen: Sequence[Figure], scale: str, store: Path, folder: Path, **options: Any) -> list[Published]:
    label = chosen[0].name if len(chosen) == 1 else f"{len(chosen)} figures"
    told = sweep_progress_of(f"{label}, {scale}")
    with Store(store) as opened, interruptible(opened, sweep_of(scale)), told as update:
        return run(chosen, scale, opened, folder, progress=update, announce=_announce, **options)


def _announce(published: Published) -> None:
    print(f"{published.name}: {published.files[0]}", file=sys.stderr)


def _ask(chosen: Sequence[Figure], scale: str, json: bool) -> None:
    """Says what the paper's scale costs, and asks."""
    for figure in chosen:
        at = figure.scale(scale)
        size = f"{len(at.cells())} cells, about {_minutes(at)} on two cores"
        print(f"{figure.name}: {size}. {caption.sentence(at.protocol)}", file=sys.stderr)
    if json or not sys.stdin.isatty():
        raise InputError("the paper's scale is for a large machine; add --yes to run it")
    typer.confirm("Run it?", abort=True, err=True)


def _page(store: Path, out: Path, json: bool) -> None:
    with Store(store, create=False) as opened:
        written = results.write(opened, out)
    text = f"wrote {written.page}\n" + "\n".join(f"  {path}" for path in written.pictures)
    missing = f"\nnot in the store yet: {', '.join(written.missing)}" if written.missing else ""
    show(text + missing, written.to_json(), json)


def _list(names: Sequence[str], json: bool) -> None:
    chosen = list({figure.name: figure for name in names for figure in registry.find(name)}.values())
    text = "\n\n".join(_entry(figure) for figure in chosen)
    total = round(expected_minutes(chosen, "laptop"), 1)
    value = {"figures": [_entry_json(figure) for figure in chosen], "laptop_minutes": total}
    show(f"{text}\n\nThese at laptop scale, shared cells once: about {total:.0f} minutes on two cores.", value, json)


def _entry(figure: Figure) -> str:
    parts = {"shows": figure.shows}
    for name, scale in figure.scales().items():
        parts[name] = f"{caption.sentence(scale.protocol)} About {_minutes(scale)} on two cores."
    lines = [f"{figure.name:<12} {figure.title}"]
    for name, words in parts.items():
        lines.append(textwrap.fill(words, _WIDTH, initial_indent=f"  {name:<8}", subsequent_indent=" " * 10))
    return "\n".join(lines)


def _minutes(scale: Scale) -> str:
    return duration(60 * scale.minutes)


def _entry_json(figure: Figure) -> dict[str, Any]:
    scales = {
        name: {
            "protocol": scale.protocol,
            "minutes": scale.minutes,
            "cells": len(scale.cells()),
            "data": sorted(data_of(figure, name)),
        }
        for name, scale in figure.scales().items()
    }
    words = {"name": figure.name, "title": figure.title, "shows": figure.shows, "claim": figure.claim}
    return {**words, "beyond": figure.beyond, "scales": scales}


def _table(published: Sequence[Published], left_out: Sequence[str], scale: str) -> str:
    lines = [f"{'figure':<20} {'cells':>6} {'failed':>6} {'computing':>10}  files"]
    for each in published:
        time = duration(each.seconds)
        lines.append(f"{each.name:<20} {each.cells:>6} {each.failed:>6} {time:>10}  {each.files[0]}")
        lines += [f"{'':<46} {path.name}" for path in each.files[1:]]
    if left_out:
        lines.append(f"without the scale {scale}, left out: {', '.join(left_out)}")
    return "\n".join(lines)
