"""`exhume sweep`: run a grid of experiments, look how far it is, take its numbers elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from exhume.cli.render import Json, show
from exhume.cli.sweep_progress import interruptible, sweep_progress_of
from exhume.errors import InputError
from exhume.sweep.duration import duration
from exhume.sweep.export import write
from exhume.sweep.grid import Grid, naming
from exhume.sweep.preflight import check
from exhume.sweep.record import Counts, Record
from exhume.sweep.run import run_sweep
from exhume.sweep.store import Store
from exhume.sweep.summary import Line, summarise
from exhume.sweep.workplace import check_workplace

# Failed cells that are listed at most; all of them are in the export.
_MOST_FAILURES = 20
_YAML = (".yaml", ".yml")

app = typer.Typer(no_args_is_help=True, help="Run grids of experiments.")

GridFile = Annotated[Path, typer.Argument(help="Grid, a YAML file.")]
StoreFile = Annotated[
    Path | None, typer.Option(help="SQLite file of the results; beside the grid, with its name, if left out.")
]
Where = Annotated[Path, typer.Argument(help="Store, or the grid beside which it lies.")]


@app.command("run")
def run(
    grid: GridFile,
    store: StoreFile = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, tcp://host:port.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes on this machine; as many as cores if left out.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed cells again.")] = False,
    json: Json = False,
) -> None:
    """Compute the cells of a grid that the store does not have yet.

    Interrupted or killed, it goes on where it was when it is started again. Exit code 1 if cells failed.

    Example: exhume sweep run grid.yaml --workers 2
    """
    check_workplace(scheduler, workers)
    read, path = Grid.read(grid), store or _beside(grid)
    with naming(grid):
        check(read, elsewhere=scheduler is not None)
    with Store(path) as opened:
        with interruptible(opened, read.name), sweep_progress_of(read.name) as update:
            counts = run_sweep(
                read.cells(),
                opened,
                sweep=read.name,
                scheduler=scheduler,
                workers=workers,
                retry_failed=retry_failed,
                progress=update,
            )
        _show([_Swept(read.name, counts, opened.records(read.name))], path, json)
    if counts.failed:
        raise typer.Exit(1)


@app.command("status")
def status(where: Where, json: Json = False) -> None:
    """Show how far the sweeps of a store are, also while one runs: counts, means over seeds, failed cells.

    Example: exhume sweep status grid.yaml
    """
    with _found(where) as opened:
        names = [Grid.read(where).name] if where.suffix in _YAML else opened.sweeps()
        swept = [_Swept(name, opened.counts(name), opened.records(name)) for name in names]
        _show(swept, opened.path, json)


@app.command("export")
def export(
    where: Where,
    out: Annotated[Path, typer.Option(help="File to write: .csv or .parquet.")],
    sweep: Annotated[str | None, typer.Option(help="One sweep of the store; all its cells if left out.")] = None,
    json: Json = False,
) -> None:
    """Write the cells of a store as one flat table: settings, state, numbers.

    Example: exhume sweep export grid.sqlite --out table.parquet
    """
    with _found(where) as opened:
        name = Grid.read(where).name if sweep is None and where.suffix in _YAML else sweep
        count = write(out, opened.records(name))
    show(f"wrote {count} cells to {out}", {"cells": count, "out": str(out)}, json)


class _Swept:
    """A sweep and what is to be said of it."""

    def __init__(self, name: str, counts: Counts, records: Sequence[Record]) -> None:
        self.name, self.counts, self.lines = name, counts, summarise(records)
        self.failures = [record for record in records if record.state == "failed"]

    def to_json(self) -> dict[str, Any]:
        failures = [
            {"key": each.cell.key, "title": each.cell.title, "error": (each.error or "").partition("\n")[0]}
            for each in self.failures
        ]
        lines = [line.to_json() for line in self.lines]
        return {"name": self.name, **self.counts.to_json(), "failures": failures, "lines": lines}

    def text(self) -> str:
        counts = self.counts
        head = f"{self.name}: {counts.done} of {counts.total} cells done, {counts.failed} failed"
        head += f", {counts.waiting} waiting, {duration(counts.seconds)} of computing"
        lost = f"{counts.lost} times a worker or a run ended before its cell did" if counts.lost else ""
        failures = [
            f"failed: {each.cell.title}: {(each.error or '').partition(chr(10))[0]}"
            for each in self.failures[:_MOST_FAILURES]
        ]
        more = len(self.failures) - _MOST_FAILURES
        return "\n".join(
            [head, *filter(None, [lost]), _table(self.lines), *failures, *([f"and {more} more"] if more > 0 else [])]
        )


def _show(swept: Sequence[_Swept], path: Path, json: bool) -> None:
    text = "\n\n".join(each.text() for each in swept) or "no sweep yet"
    show(f"{text}\nstore: {path}", {"store": str(path), "sweeps": [each.to_json() for each in swept]}, json)


def _table(lines: Sequence[Line]) -> str:
    settings = list(lines[0].settings) if lines else []
    rows = [[*settings, "done", "error", "recovered", "seconds"]]
    for line in lines:
        numbers = (
            "-" if line.error is None else f"{line.error:.2g}",
            "-" if line.recovered is None else f"{line.recovered:.0%}",
            "-" if line.seconds is None else f"{line.seconds:.1f}",
        )
        rows.append([*(_word(line.settings[name]) for name in settings), f"{line.done} of {line.cells}", *numbers])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)


def _word(value: Any) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _beside(grid: Path) -> Path:
    return grid.with_suffix(".sqlite")


def _found(where: Path) -> Store:
    path = _beside(where) if where.suffix in _YAML else where
    if where.suffix in _YAML and where.is_file() and not path.exists():
        raise InputError(f"{path} does not exist: {where} has not been run, or with --store; give the store instead")
    return Store(path, create=False)
