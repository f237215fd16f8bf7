"""`exhume score`: compare a reconstruction with the truth, and draw the two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from exhume import files
from exhume.cli.render import Json, show
from exhume.data import PictureFormat, TableFormat
from exhume.gallery import as_shown, save_gallery
from exhume.reconstruction import Reconstruction
from exhume.records import Records, as_records
from exhume.report.from_run import check_belongs
from exhume.report.from_run import judged as score_of
from exhume.runs import RunFolder, Secret
from exhume.scoring import Score
from exhume.target import Target


def score(
    run: Annotated[Path, typer.Argument(help="Run folder with an attack in it.")],
    method: Annotated[str | None, typer.Option(help="Which attack to score; the newest by default.")] = None,
    memory_budget: Annotated[str, typer.Option(help="Memory for the random features matrix.")] = "4GB",
    json: Json = False,
) -> None:
    """Score a reconstruction against the secret truth; writes score.json, and gallery.png for pictures.

    Example: exhume score runs/a --json
    """
    folder = RunFolder(run)
    value, text = score_run(folder, folder.chosen(method), memory_budget)
    show(text, value, json)


def score_run(folder: RunFolder, method: str, memory_budget: str = "4GB") -> tuple[dict[str, Any], str]:
    """Scores one attack of a run folder; returns the JSON value and the text."""
    result, target = folder.load_result(method), folder.load_target(memory_budget=memory_budget)
    secret = folder.load_secret()
    judged, value = judge(folder, result, target, secret)
    text = f"{method} on {folder.path}: {judged.summary()}"
    records = records_of(result, judged, secret)
    text += f"\n{records.summary()}" if records else ""
    gallery = folder.judgements(method)[1]
    return value, f"{text}\n  pictures: {gallery}" if gallery.exists() else text


def judge(folder: RunFolder, result: Reconstruction, target: Target, secret: Secret) -> tuple[Score, dict[str, Any]]:
    """Scores a result against the truth and writes score.json, and gallery.png for pictures; the second is the JSON."""
    check_belongs(folder, result, target)
    picture, judged = picture_of(secret), score_of(result, target, secret)
    value = {
        "method": result.method,
        "verdict": result.certificate.verdict,
        "passes": result.passes,
        **judged.to_json(),
    }
    records = records_of(result, judged, secret)
    if records is not None:
        value["records"] = records.to_json()
    score_file, gallery = folder.judgements(result.method)
    files.write_json(score_file, value)
    if picture is not None:
        _draw(gallery, judged, result, secret.inputs, picture)
    return judged, value


def picture_of(secret: Secret) -> PictureFormat | None:
    """How the samples of a run are drawn; None for plain vectors."""
    return PictureFormat.from_json(secret.picture) if secret.picture else None


def records_of(result: Reconstruction, judged: Score, secret: Secret) -> Records | None:
    """The samples of a run as records in original units; None if they are not those of a table."""
    return as_records(result, judged, secret.inputs, TableFormat.from_json(secret.table)) if secret.table else None


def _draw(path: Path, judged: Score, result: Reconstruction, truth: torch.Tensor, picture: PictureFormat) -> None:
    """Draws the matched pairs."""
    shown = as_shown(result, judged, truth)
    title = f"{result.method}: {judged.recovered} of {judged.num_samples} recovered"
    if not result.signs_determined:
        title = f"{result.method}: {judged.recovered_up_to_sign} of {judged.num_samples} recovered up to sign"
    title += " (true above, recovered below with its error"
    title += f"; {' and '.join(shown.borrowed)} drawn as in the truth)" if shown.borrowed else ")"
    save_gallery(path, truth[list(shown.indices)], shown.rows, shown.errors, picture.to_pictures, title=title)
