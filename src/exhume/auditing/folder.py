"""The folder of an audit: the report and everything that it is made of; readable by its owner alone."""

from __future__ import annotations

import math
import shutil
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from exhume.attacks import ATTACKS
from exhume.auditing.attempts import Attempt
from exhume.auditing.ladder import Rung
from exhume.auditing.result import Audit
from exhume.auditing.settings import Settings
from exhume.data import Dataset, PictureFormat, TableFormat
from exhume.defences import Outcome
from exhume.errors import FileError, InputError
from exhume.estimators.findings import PipelineFindings
from exhume.estimators.recover import STORED
from exhume.law import Forecast
from exhume.report import Fact, Report
from exhume.results.reconstruction import Reconstruction
from exhume.run_folder import RunFolder
from exhume.scoring.against_truth import Score
from exhume.scoring.premise import Premise
from exhume.support import files, serialise
from exhume.target.diagnosis import Finding
from exhume.target.published import Count

RECORD, PAGE = "audit.json", "report.html"
_MODE = 0o700
# Settings of version 0.1.0 that are no more.
_RETIRED = ("architecture", "config")
_OURS = {RECORD, PAGE, "secret.safetensors", STORED, *ATTACKS}


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
    """Where a running audit keeps checkpoints and outcomes, beside its folder; removed when the audit is saved."""
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
    runs.save_secret(audited.dataset)
    audited.write_report(path / PAGE)
    # What else is needed to make the report again.
    rest = {
        "settings": audited.settings.to_json(),
        "input_shape": list(audited.input_shape),
        "provenance": [asdict(each) for each in audited.provenance],
    }
    files.write_json(path / RECORD, audited.to_json() | rest)


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
                ladder=tuple(serialise.load(Rung, {}, rung) for rung in each.get("ladder", ())),
            )
            for each in value["attempts"]
        )
        shape = tuple(value["input_shape"])
        result = next((each.result for each in attempts if each.result and each.method == value["method"]), None)
        return Audit(
            settings=Settings(**{name: each for name, each in value["settings"].items() if name not in _RETIRED}),
            forecast=_forecast(value["forecast"] or {}),
            result=result,
            score=_score(value["score"] or {}, result),
            premise=_premise(value.get("premise")),
            count=_count(value.get("count")),
            attempts=attempts,
            defences=tuple(Outcome.from_json(each) for each in value["defences"]),
            dataset=_dataset(runs, value, shape),
            input_shape=shape,
            diagnosis=tuple(Finding(**each) for each in value.get("diagnosis", ())),
            notes=tuple(value["notes"]),
            provenance=tuple(Fact(**each) for each in value["provenance"]),
            folder=Path(path),
            pipeline=_pipeline(value.get("pipeline")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError(f"{path} does not hold a whole audit: {error}") from error


def _pipeline(value: dict[str, Any] | None) -> PipelineFindings | None:
    return None if value is None else serialise.load(PipelineFindings, {}, value)


def report_of(path: Path, redact: bool = False) -> Report:
    """The page of an audit folder, made again."""
    audited = load(path)
    settings = audited.settings.model_copy(update={"redact": redact or audited.settings.redact})
    return replace(audited, settings=settings).report


def _dataset(folder: RunFolder, value: dict[str, Any], input_shape: tuple[int, ...]) -> Dataset:
    """The owner's data. Version 0.1.0 wrote zeros for labels that were not given, and formats into the record."""
    data = folder.load_secret() if folder.holds_secret else Dataset.without_samples(math.prod(input_shape))
    if not value.get("labels_given", True):
        data = replace(data, labels=torch.empty(0))
    if value.get("picture"):
        data = replace(data, picture=PictureFormat.from_json(value["picture"]))
    if value.get("table"):
        data = replace(data, table=TableFormat.from_json(value["table"]))
    return data


def _forecast(value: dict[str, Any]) -> Forecast | None:
    fields = {name: each for name, each in value.items() if name != "sentence"}
    return serialise.load(Forecast, {}, fields) if value else None


def _premise(value: dict[str, Any] | None) -> Premise | None:
    if not value:
        return None
    derived = ("holds", "sentence")
    return serialise.load(Premise, {}, {name: each for name, each in value.items() if name not in derived})


def _count(value: dict[str, Any] | None) -> Count | None:
    """The count; audits before it was made have none."""
    if not value:
        return None
    return serialise.load(Count, {}, {name: each for name, each in value.items() if name != "sentence"})


def _score(value: dict[str, Any], result: Reconstruction | None) -> Score | None:
    claimed = result is None or result.signs_determined  # scores of version 0.1.0 do not have it
    return serialise.load(Score, {}, {"signs_claimed": claimed} | value) if value else None
