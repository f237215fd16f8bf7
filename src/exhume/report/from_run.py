"""A report from a run folder: one attack on its victim, and the truth if it is in the folder."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import torch

from exhume import scoring
from exhume.data import PictureFormat, TableFormat
from exhume.errors import FileError, InputError
from exhume.forecasts import forecast_of
from exhume.law import Forecast
from exhume.reconstruction import Reconstruction
from exhume.report.build import of_subject
from exhume.report.content import Fact, Report
from exhume.report.subject import Subject
from exhume.runs import RunFolder, Secret
from exhume.scoring import Score
from exhume.target import Target


def of_run(folder: RunFolder, method: str | None = None, redact: bool = False) -> Report:
    """The report on one attack of a run folder.

    Args:
        folder: where `exhume train` and `exhume attack` wrote.
        method: which attack; the newest by default.
        redact: blur pictures and withhold values.
    """
    chosen = folder.chosen(method)
    target, result = folder.load_target(), folder.load_result(chosen)
    check_belongs(folder, result, target)
    secret = folder.load_secret() if folder.holds_secret else None
    return of_subject(subject_of(folder, target, result, secret, redact=redact))


def subject_of(
    folder: RunFolder, target: Target, result: Reconstruction, secret: Secret | None, *, redact: bool = False
) -> Subject:
    """One result of a run folder as the subject of a report, scored if the truth is given and it did not diverge."""
    finite = bool(torch.isfinite(result.samples).all())
    return Subject(
        name=folder.path.resolve().name,
        result=result,
        forecast=forecast_for(target, result),
        input_shape=target.input_shape,
        picture=PictureFormat.from_json(secret.picture) if secret is not None and secret.picture else None,
        table=TableFormat.from_json(secret.table) if secret is not None and secret.table else None,
        truth=None if secret is None else secret.inputs,
        true_labels=None if secret is None else secret.labels,
        score=judged(result, target, secret) if secret is not None and finite else None,
        provenance=provenance(folder.attack(result.method) / "result.json", secret),
        redacted=redact,
        notes=() if finite else ("The attack diverged, so its rows were not compared with the training data.",),
    )


def forecast_for(target: Target, result: Reconstruction) -> Forecast:
    """The law's word on the target under the knowledge of the attack, for as many samples as it looked for."""
    known = result.knowledge
    return forecast_of(target.with_knowledge(known), len(result.samples) + known.known_samples)


def judged(result: Reconstruction, target: Target, secret: Secret) -> Score:
    """The score of a result, made anew: the truth may be newer than a score in the folder."""
    picture, features = PictureFormat.from_json(secret.picture) if secret.picture else None, target.features
    return scoring.score(
        result,
        secret.inputs,
        non_members=secret.non_members if len(secret.non_members) else None,
        true_labels=secret.labels,
        to_pictures=picture.to_pictures if picture else None,
        features=lambda inputs: features.forward(inputs.to(features.device)),
    )


def check_belongs(folder: RunFolder, result: Reconstruction, target: Target) -> None:
    """Refuses a result of other weights than the folder holds now."""
    try:
        same = result.target == target.with_knowledge(result.knowledge).fingerprint
    except InputError:
        same = False
    if not same:
        place = folder.attack(result.method)
        raise FileError(f"{place} holds a result for other weights than {folder.path} does now; attack it again")


def provenance(file: Path, secret: Secret | None) -> tuple[Fact, ...]:
    """When a result was written, and how the data were made."""
    written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    facts = [Fact("Date", written.strftime("%Y-%m-%d"))]
    if secret is not None:
        facts.append(Fact("Training data", secret.protocol))
    return tuple(facts)
