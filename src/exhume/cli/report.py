"""`exhume report`: one page of HTML on a run, a comparison, a sweep or an audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from exhume.auditing import folder, several
from exhume.cli.render import Json, show
from exhume.errors import FileError, InputError
from exhume.report import Report, of_comparison, of_run, of_sweep, write
from exhume.runs import RunFolder

_GRIDS, _STORES, _PAGES = (".yaml", ".yml"), (".sqlite",), (".html", ".htm")


def report(
    path: Annotated[Path, typer.Argument(help="Run folder, audit folder, or the store of a sweep (or its grid).")],
    method: Annotated[str | None, typer.Option(help="Which attack of a run folder; the newest by default.")] = None,
    sweep: Annotated[str | None, typer.Option(help="Which sweep of a store; needed if it holds several.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Page to write; report.html in the folder, or beside the store, if left out.")
    ] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Blur pictures; withhold records and labels.")] = False,
    json: Json = False,
) -> None:
    """Write one page of HTML that works offline, readable by its owner alone: it may show training data.

    A folder with a comparison in it is shown as one, unless --method names one of its attacks.

    Example: exhume report runs/a --redact
    """
    kind, place = _found(path, method)
    if sweep is not None and kind != "sweep":
        raise InputError(f"--sweep is {sweep!r}, but {path} is no store of sweeps")
    if method is not None and kind != "run":
        raise InputError(f"--method is {method!r}, but {path} is no run folder")
    page = _checked(out) if out is not None else _default(kind, place)
    made = _made(kind, place, method, sweep, redact)
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


def _found(path: Path, method: str | None) -> tuple[str, Path]:
    """What a path is: an audit, a comparison, a run or a sweep."""
    if path.suffix in _GRIDS:
        return "sweep", path.with_suffix(".sqlite")
    if path.suffix in _STORES or path.is_file():
        return "sweep", path
    if (path / folder.RECORD).is_file():
        return "audit", path
    if (path / several.INDEX).is_file():
        return "audits", path
    if method is None and RunFolder(path).comparison[0].is_file():
        return "comparison", path
    if path.is_dir() and not (path / "victim.json").is_file():
        raise FileError(f"{path} is no run, comparison or audit; valid: a folder that exhume wrote, or a sweep's store")
    return "run", path


def _made(kind: str, path: Path, method: str | None, sweep: str | None, redact: bool) -> Report:
    if kind == "audit":
        return folder.report_of(path, redact)
    if kind == "audits":
        return several.report_of_all(several.load_all(path))
    if kind == "comparison":
        return of_comparison(RunFolder(path), redact=redact)
    if kind == "sweep":
        return of_sweep(path, sweep, redact=redact)
    return of_run(RunFolder(path), method, redact=redact)


def _default(kind: str, path: Path) -> Path:
    if kind == "audits":
        return path / several.PAGE
    return path.with_suffix(".html") if kind == "sweep" else path / folder.PAGE


def _checked(out: Path) -> Path:
    """Refuses what is no name of a page, lest a file of weights be overwritten by a slip."""
    if out.is_dir():
        raise FileError(f"--out {out} is a folder; valid: the name of a page, such as {out / 'report.html'}")
    if out.suffix.lower() not in _PAGES:
        raise InputError(f"--out {out} does not end with {' or '.join(_PAGES)}; valid: the name of a page")
    return out
