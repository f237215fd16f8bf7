"""The folder of an audit: the page, and everything behind it; readable by its owner alone."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from exhume import files
from exhume.attacks import ATTACKS
from exhume.auditing.attempts import Attempt
from exhume.auditing.audited import Audit
from exhume.auditing.given import Given
from exhume.auditing.settings import Settings
from exhume.data import PictureFormat, TableFormat
from exhume.defences import Outcome
from exhume.errors import FileError, InputError
from exhume.law import Forecast
from exhume.reconstruction import Reconstruction
from exhume.report import Fact, Report
from exhume.runs import RunFolder, Secret
from exhume.scoring import Match, Score

RECORD, PAGE = "audit.json", "report.html"
_MODE = 0o700
_OURS = {RECORD, PAGE, "secret.safetensors", *ATTACKS}


def check(path: Path, record: str = RECORD) -> None:
    """Refuses a folder that holds something else than an audit, or that cannot be made."""
    if path.resolve() == Path.cwd():
        raise InputError(f"{path} is the current folder; valid: one of its own for the audit")
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; valid: a folder for the audit")
    if path.is_dir() and any(path.iterdir()) and not (path / record).exists():
        raise InputError(f"{path} holds other files than {record}; valid: a new or empty folder, or one that has it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=_MODE)
    except OSError as error:
        raise FileError(f"cannot make the folder {path.parent}: {error}") from error


def workplace(path: Path) -> Path:
    """Where an audit keeps what it has done so far, beside its folder; it goes when the audit is saved."""
    return path.resolve().with_name(f".{path.resolve().name}.running")


def save(audited: Audit, path: Path) -> None:
    """Writes reconstructions, truth, page and record beside `path`, and puts them there when they are whole."""
    path = path.resolve()  # a link stays one
    try:
        new = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))  # its mode is 0700
    except OSError as error:
        raise FileError(f"cannot write beside {path}: {error}") from error
    try:
        _write(audited, new)
        _put(new, path)
        shutil.rmtree(workplace(path), ignore_errors=True)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error}; an earlier audit there, if any, is untouched") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _write(audited: Audit, path: Path) -> None:
    runs = RunFolder(path)
    for each in audited.attempts:
        if each.result is not None:
            runs.save_result(each.result)
    given = audited.given
    if given.inputs is not None:
        runs.save_secret(
            Secret(
                given.inputs,
                torch.zeros(len(given.inputs)) if given.labels is None else given.labels,
                given.inputs[:0] if given.held_out is None else given.held_out,
                given.picture.to_json() if given.picture else None,
                "the owner's data",
                given.table.to_json() if given.table else None,
            )
        )
    audited.write_report(path / PAGE)
    files.write_json(path / RECORD, audited.to_json() | _behind(audited))


def _put(new: Path, path: Path) -> None:
    """Renames a whole folder to its place; files of others in the one that it replaces are kept."""
    if not path.exists():
        new.rename(path)
        return
    old = new.with_name(f"{new.name}.old")
    path.rename(old)
    try:
        new.rename(path)
    except OSError:
        old.rename(path)
        raise
    for entry in old.iterdir():
        if entry.name not in _OURS and not (path / entry.name).exists():
            entry.rename(path / entry.name)
    shutil.rmtree(old)


def _behind(audited: Audit) -> dict[str, Any]:
    """What the page is made of besides, so that it can be made again."""
    given = audited.given
    return {
        "settings": audited.settings.to_json(),
        "input_shape": list(audited.input_shape),
        "picture": given.picture.to_json() if given.picture else None,
        "table": given.table.to_json() if given.table else None,
        "labels_given": given.labels is not None,
        "provenance": [asdict(each) for each in audited.provenance],
    }


def load(path: Path) -> Audit:
    """Reads an audit back."""
    value = files.read_json(Path(path) / RECORD)
    runs = RunFolder(Path(path))
    try:
        attempts = tuple(
            Attempt(
                each["method"],
                None if each["reason"] else runs.load_result(each["method"]),
                each["reason"] or "",
                each["too_few_equations"],
            )
            for each in value["attempts"]
        )
        result = next((each.result for each in attempts if each.result and each.method == value["method"]), None)
        return Audit(
            settings=Settings(**value["settings"]),
            forecast=_forecast(value["forecast"]),
            result=result,
            score=_score(value["score"]),
            attempts=attempts,
            defences=tuple(Outcome.from_json(each) for each in value["defences"]),
            given=_given(runs, value, result),
            input_shape=tuple(value["input_shape"]),
            notes=tuple(value["notes"]),
            provenance=tuple(Fact(**each) for each in value["provenance"]),
            folder=Path(path),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError(f"{path} does not hold a whole audit: {error}") from error


def report_of(path: Path, redact: bool = False) -> Report:
    """The page of an audit folder, made again."""
    audited = load(path)
    settings = audited.settings.model_copy(update={"redact": redact or audited.settings.redact})
    return replace(audited, settings=settings).report


def _given(runs: RunFolder, value: dict[str, Any], result: Reconstruction | None) -> Given:
    picture = PictureFormat.from_json(value["picture"]) if value["picture"] else None
    table = TableFormat.from_json(value["table"]) if value["table"] else None
    if not runs.holds_secret:
        return Given(picture=picture, table=table)
    secret = runs.load_secret()
    labels = secret.labels if value["labels_given"] else None
    return Given(secret.inputs, labels, secret.non_members if len(secret.non_members) else None, None, picture, table)


def _forecast(value: dict[str, Any] | None) -> Forecast | None:
    return None if value is None else Forecast(**{name: each for name, each in value.items() if name != "sentence"})


def _score(value: dict[str, Any] | None) -> Score | None:
    if value is None:
        return None
    tuples = {name: tuple(each) for name, each in value.items() if isinstance(each, list)}
    return Score(**{**value, **tuples, "matches": tuple(Match(**each) for each in value["matches"])})
