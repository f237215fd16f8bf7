"""`exhume sweep`: run a grid of experiments, show its progress, export its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exhume.cli.options import Json, RetryFailed, Scheduler, Workers
from exhume.cli.render import cell, interruptible_sweep, show, sweep_progress
from exhume.errors import InputError
from exhume.support.text import duration, table

if TYPE_CHECKING:
    from exhume.sweep.export import Line
    from exhume.sweep.store import Record, Store

# Failed cells that are listed at most; all of them are in the export.
_MOST_FAILURES = 20
_YAML = (".yaml", ".yml")

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="Run grids of experiments.")

GridFile = Annotated[Path, typer.Argument(help="Grid, a YAML file.")]
StoreFile = Annotated[
    Path | None, typer.Option(help="SQLite file of the results; by default the grid's name with .sqlite.")
]
StoreOrGrid = Annotated[Path, typer.Argument(help="SQLite file of the results, or the grid whose name it has.")]


@app.command("run")
def run(
    grid: GridFile,
    store: StoreFile = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    retry_failed: RetryFailed = False,
    json: Json = False,
) -> None:
    """Compute the cells of a grid that the store does not have yet.

    A run that was interrupted or killed continues when it is started again. Exit code 1 if cells failed.

    Example: exhume sweep run grid.yaml --workers 2
    """
    from exhume.sweep.check import check
    from exhume.sweep.cluster import workers_of
    from exhume.sweep.grid import Grid, naming
    from exhume.sweep.run import run_sweep
    from exhume.sweep.store import Store

    chosen = workers_of(scheduler, workers)
    read, path = Grid.read(grid), store or grid.with_suffix(".sqlite")
    with naming(grid):
        check(read, elsewhere=scheduler is not None)
    with Store(path) as opened:
        with interruptible_sweep(opened, read.name), sweep_progress(read.name) as update:
            counts = run_sweep(
                read.cells(), opened, sweep=read.name, workers=chosen, retry_failed=retry_failed, progress=update
            )
        _show_sweeps(opened, [read.name], json)
    if counts.failed:
        raise typer.Exit(1)


@app.command("status")
def status(where: StoreOrGrid, json: Json = False) -> None:
    """Show the progress of the sweeps in a store. Also while one runs: counts, means over seeds, failed cells.

    Example: exhume sweep status grid.yaml
    """
    from exhume.sweep.grid import Grid

    with _open(where) as opened:
        _show_sweeps(opened, [Grid.read(where).name] if where.suffix in _YAML else opened.sweeps(), json)


@app.command("export")
def export(
    where: StoreOrGrid,
    out: Annotated[Path, typer.Option(help="File to write: .csv or .parquet.")],
    sweep: Annotated[str | None, typer.Option(help="One sweep of the store; by default all its cells.")] = None,
    json: Json = False,
) -> None:
    """Write the cells of a store as one flat table. Its columns: settings, state, numbers.

    Example: exhume sweep export grid.sqlite --out table.parquet
    """
    from exhume.sweep.export import write
    from exhume.sweep.grid import Grid

    with _open(where) as opened:
        name = Grid.read(where).name if sweep is None and where.suffix in _YAML else sweep
        count = write(out, opened.records(name))
    show(f"wrote {count} cells to {out}", {"cells": count, "out": str(out)}, json)


def _open(where: Path) -> Store:
    from exhume.sweep.store import Store

    path = where.with_suffix(".sqlite") if where.suffix in _YAML else where
    if path != where and where.is_file() and not path.exists():
        raise InputError(
            f"{path} does not exist: {where} has not been run, or was run with --store; then give that store"
        )
    return Store(path, create=False)


def _show_sweeps(store: Store, names: Sequence[str], json: bool) -> None:
    from exhume.sweep.export import summarise

    texts, values = [], []
    for name in names:
        counts, records = store.counts(name), store.records(name)
        lines, failures = summarise(records), [record for record in records if record.state == "failed"]
        texts += [
            f"{name}: {counts.done} of {counts.total} cells done, {counts.failed} failed, {counts.waiting} waiting, "
            f"{duration(counts.seconds)} of computing",
            _table(lines),
            *(f"failed: {each.cell.title}: {_reason(each)}" for each in failures[:_MOST_FAILURES]),
            *([f"and {len(failures) - _MOST_FAILURES} more"] if len(failures) > _MOST_FAILURES else []),
            "",
        ]
        listed = [{"key": each.cell.key, "title": each.cell.title, "error": _reason(each)} for each in failures]
        values.append(
            {"name": name, **counts.to_json(), "failures": listed, "lines": [line.to_json() for line in lines]}
        )
    text = "\n".join(texts[:-1]) or "no sweep yet"
    show(f"{text}\nstore: {store.path}", {"store": str(store.path), "sweeps": values}, json)


def _reason(record: Record) -> str:
    """The first line of a failed cell's error."""
    return (record.error or "").partition("\n")[0]


def _table(lines: Sequence[Line]) -> str:
    settings = list(lines[0].settings) if lines else []
    rows = [
        (
            *(cell(line.settings[name], "g") for name in settings),
            f"{line.done} of {line.cells}",
            cell(line.error, ".2g"),
            cell(line.recovered, ".0%"),
            cell(line.seconds, ".1f"),
        )
        for line in lines
    ]
    return table([*settings, "done", "error", "recovered", "seconds"], rows, left=0)
