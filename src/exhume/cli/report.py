"""`exhume report`: one HTML page about a run, a comparison, a sweep or an audit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exhume.cli.options import Json
from exhume.cli.render import show
from exhume.errors import FileError, InputError

if TYPE_CHECKING:
    from exhume.report import Report

_GRIDS, _STORES, _PAGES = (".yaml", ".yml"), (".sqlite",), (".html", ".htm")


def report(
    path: Annotated[Path, typer.Argument(help="Run folder, audit folder, or the store of a sweep (or its grid).")],
    method: Annotated[str | None, typer.Option(help="Which attack of a run folder; the newest by default.")] = None,
    sweep: Annotated[str | None, typer.Option(help="Which sweep of a store; needed if it holds several.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Page to write; report.html in the folder, or beside the store, if left out.")
    ] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Blur images; leave out records and labels.")] = False,
    json: Json = False,
) -> None:
    """Write one page of HTML that works offline. Only its owner can read it: it may show training data.

    A folder with a comparison in it is shown as one, unless --method names one of its attacks.

    Example: exhume report runs/a --redact
    """
    from exhume.report import write

    kind, page, build = _recognise(path, method, sweep, redact)
    if sweep is not None and kind != "sweep":
        raise InputError(f"--sweep is {sweep!r}, but {path} is not a store of sweeps; valid: a .sqlite file or a grid")
    if method is not None and kind != "run":
        raise InputError(f"--method is {method!r}, but {path} is not a run folder; valid: one with attacks in it")
    page = _check_page(out) if out is not None else page
    made = build()
    write(made, page)
    value = {
        "out": str(page),
        "kind": kind,
        "title": made.title,
        "level": made.verdict.level.value,
        "headline": made.verdict.headline,
        "redacted": made.redacted,
    }
    show(f"{made.verdict.headline}\nreport: {page}", value, json)


def _recognise(
    path: Path, method: str | None, sweep: str | None, redact: bool
) -> tuple[str, Path, Callable[[], Report]]:
    """What a path is (sweep, audit, audits, comparison or run), the default page, and how its report is built."""
    from exhume.auditing import batch, folder
    from exhume.report import of_comparison, of_run, of_sweep
    from exhume.run_folder import RunFolder

    if path.suffix in (*_GRIDS, *_STORES) or path.is_file():
        store = path.with_suffix(".sqlite") if path.suffix in _GRIDS else path
        return "sweep", store.with_suffix(".html"), lambda: of_sweep(store, sweep, redact=redact)
    if (path / folder.RECORD).is_file():
        return "audit", path / folder.PAGE, lambda: folder.report_of(path, redact)
    if (path / batch.INDEX).is_file():
        return "audits", path / batch.PAGE, lambda: batch.report_of_all(batch.load_all(path))
    run = RunFolder(path)
    if method is None and run.comparison[0].is_file():
        return "comparison", path / folder.PAGE, lambda: of_comparison(run, redact=redact)
    if path.is_dir() and not (path / "victim.json").is_file():
        raise FileError(
            f"{path} holds no run, comparison or audit; valid: a folder that exhume wrote, or the store of a sweep"
        )
    return "run", path / folder.PAGE, lambda: of_run(run, method, redact=redact)


def _check_page(out: Path) -> Path:
    """Refuses names that are not those of pages, so that no file of weights is overwritten by mistake."""
    if out.is_dir():
        raise FileError(f"--out {out} is a folder; valid: the name of a page, such as {out / 'report.html'}")
    if out.suffix.lower() not in _PAGES:
        raise InputError(
            f"--out {out} does not end with {' or '.join(_PAGES)}; valid: for instance {out.with_suffix('.html')}"
        )
    return out
