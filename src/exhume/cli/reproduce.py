"""`exhume reproduce`: run, draw and describe the paper's figures."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exhume.cli.options import Json, RetryFailed, Scheduler, Workers
from exhume.cli.render import interruptible_sweep, notice, show, sweep_progress
from exhume.errors import InputError
from exhume.support.text import duration, table

if TYPE_CHECKING:
    from exhume.research.paper_figures import Figure
    from exhume.research.paper_figures.run import Published
    from exhume.sweep.run import SweepProgress

_WIDTH = 110  # letters in a line of the list
_FOLDER, _STORE, _PAGE = Path("figs"), "reproduce.sqlite", Path("docs/reference/reproduction.md")


def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(help="Figures: fig1 to fig17, names beyond the paper, all, beyond; or page, the results page."),
    ] = None,
    list_them: Annotated[
        bool, typer.Option("--list", help="List the figures and their times; of named ones also the protocols.")
    ] = False,
    scale: Annotated[str, typer.Option(help="laptop (two cores, minutes) or paper (the exact protocol).")] = "laptop",
    out: Annotated[Path | None, typer.Option(help="Folder of the figures (figs), or file of the page.")] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="File that keeps every finished cell; reproduce.sqlite in the folder if left out."),
    ] = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    retry_failed: RetryFailed = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a run at the paper's scale.")] = False,
    json: Json = False,
) -> None:
    """Run figures of the paper and draw them. The paper's method and ours are side by side.

    A run that was killed continues when it is started again. Exit code 1 if cells failed.

    Example: exhume reproduce fig3 --scale laptop --out figs
    """
    from exhume.research import paper_figures as registry
    from exhume.research.paper_figures.run import require_data
    from exhume.sweep.cluster import workers_of

    if scale not in registry.SCALES:
        raise InputError(f"unknown scale {scale!r}; valid: {', '.join(registry.SCALES)}")
    if list_them:
        _list(figures, json)
    elif not figures:
        raise InputError(f"no figure is named; valid: {', '.join(registry.FIGURES)}, beyond, all, page; or --list")
    elif figures == ["page"]:
        _page(store or _FOLDER / _STORE, out or _PAGE, json)
    else:
        computing = workers_of(scheduler, workers)
        folder = out or _FOLDER
        chosen, left_out = _chosen(figures, scale)
        if scheduler is None:
            require_data(chosen, scale)
        if scale == "paper" and not yes:
            _ask(chosen, scale, json)
        options: dict[str, Any] = {"workers": computing, "retry_failed": retry_failed}
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
    """The figures, each once; and the names of those in a group that do not have the scale."""
    from exhume.research import paper_figures as registry

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
        other = ", ".join(each for each in registry.SCALES if each != scale)
        raise InputError(f"none of {', '.join(names)} has the scale {scale!r}; valid: --scale {other}")
    return list(found.values()), left_out


def _run(chosen: Sequence[Figure], scale: str, store: Path, folder: Path, **options: Any) -> list[Published]:
    from exhume.research.paper_figures.run import Published, reproduce, sweep_of
    from exhume.sweep.store import Store

    label = chosen[0].name if len(chosen) == 1 else f"{len(chosen)} figures"
    progress = sweep_progress(f"{label}, {scale}")
    with Store(store) as opened, interruptible_sweep(opened, sweep_of(scale)), progress as update:

        def observe(event: SweepProgress | Published) -> None:
            if isinstance(event, Published):
                notice(f"{event.name}: {event.files[0]}")
            else:
                update(event)

        return reproduce(chosen, scale, opened, folder, observer=observe, **options)


def _ask(chosen: Sequence[Figure], scale: str, json: bool) -> None:
    """Prints what the paper's scale costs, and asks whether to run it."""
    from exhume.research.paper_figures.captions import sentence

    for figure in chosen:
        at = figure.scale(scale)
        size = f"{len(at.cells())} cells, about {duration(60 * at.minutes)} on two cores"
        print(f"{figure.name}: {size}. {sentence(at.protocol)}", file=sys.stderr)
    if json or not sys.stdin.isatty():
        raise InputError("the paper's scale is for a large machine; add --yes to run it")
    typer.confirm("Run it?", abort=True, err=True)


def _page(store: Path, out: Path, json: bool) -> None:
    from exhume.research.paper_figures.run import write_page
    from exhume.sweep.store import Store

    with Store(store, create=False) as opened:
        written = write_page(opened, out)
    text = f"wrote {written.page}\n" + "\n".join(f"  {path}" for path in written.pictures)
    missing = f"\nnot in the store yet: {', '.join(written.missing)}" if written.missing else ""
    show(text + missing, written.to_json(), json)


def _list(names: Sequence[str] | None, json: bool) -> None:
    """One line for each figure, or the protocols of those that are named."""
    from exhume.research import paper_figures as registry
    from exhume.research.paper_figures.run import expected_minutes

    chosen = list({figure.name: figure for name in names or ["all"] for figure in registry.find(name)}.values())
    total = round(expected_minutes(chosen, "laptop"), 1)
    value = {"figures": [_entry_json(figure) for figure in chosen], "laptop_minutes": total}
    text = "\n\n".join(_entry(figure) for figure in chosen) if names else _overview(chosen)
    text += f"\n\nThese at laptop scale, shared cells once: about {total:.0f} minutes on two cores."
    text += "" if names else "\nProtocol of one of them: exhume reproduce --list NAME"
    show(text, value, json)


def _overview(chosen: Sequence[Figure]) -> str:
    from exhume.research.paper_figures.run import data_of

    rows = []
    for figure in chosen:
        scales = figure.scales()
        times = [duration(60 * scales[name].minutes) if name in scales else "-" for name in ("laptop", "paper")]
        data = ", ".join(sorted({each for name in scales for each in data_of(figure, name)}))
        rows.append((figure.name, figure.title, data, *times))
    return table(("figure", "what it shows", "data", "laptop", "paper"), rows, left=3)


def _entry(figure: Figure) -> str:
    from exhume.research.paper_figures.captions import sentence

    parts = {"shows": figure.shows}
    for name, scale in figure.scales().items():
        parts[name] = f"{sentence(scale.protocol)} About {duration(60 * scale.minutes)} on two cores."
    lines = [f"{figure.name:<12} {figure.title}"]
    for name, words in parts.items():
        lines.append(textwrap.fill(words, _WIDTH, initial_indent=f"  {name:<8}", subsequent_indent=" " * 10))
    return "\n".join(lines)


def _entry_json(figure: Figure) -> dict[str, Any]:
    from exhume.research.paper_figures.run import data_of

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
    rows = [(each.name, each.cells, each.failed, duration(each.seconds)) for each in published]
    lines = [table(["figure", "cells", "failed", "computing"], rows)]
    lines += [str(path) for each in published for path in each.files]
    if left_out:
        lines.append(f"without the scale {scale}, left out: {', '.join(left_out)}")
    return "\n".join(lines)
