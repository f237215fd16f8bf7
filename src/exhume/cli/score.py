"""`exhume score`: compare a reconstruction with the true data, and draw the two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exhume.cli.options import Json
from exhume.cli.render import show

if TYPE_CHECKING:
    from exhume.data import Dataset
    from exhume.results.reconstruction import Reconstruction
    from exhume.run_folder import RunFolder
    from exhume.scoring import Score
    from exhume.target.target import Target


def score(
    run: Annotated[Path, typer.Argument(help="Run folder with an attack in it.")],
    method: Annotated[str | None, typer.Option(help="Which attack to score; the newest by default.")] = None,
    memory_budget: Annotated[str, typer.Option(help="Memory for the random features matrix.")] = "4GB",
    json: Json = False,
) -> None:
    """Score a reconstruction against the true data. Writes score.json, and gallery.png for images.

    Example: exhume score runs/a --json
    """
    from exhume.run_folder import RunFolder

    folder = RunFolder(run)
    value, text = score_run(folder, folder.chosen(method), memory_budget)
    show(text, value, json)


def score_run(folder: RunFolder, method: str, memory_budget: str = "4GB") -> tuple[dict[str, Any], str]:
    """Scores one attack of a run folder; returns the JSON value and the text."""
    result, target = folder.load_result(method), folder.load_target(memory_budget=memory_budget)
    scored, value, records = score_result(folder, result, target, folder.load_secret())
    text = f"{method} on {folder.path}: {scored.summary()}"
    text += f"\n{records}" if records else ""
    gallery = folder.judgements(method)[1]
    return value, f"{text}\n  pictures: {gallery}" if gallery.exists() else text


def score_result(
    folder: RunFolder, result: Reconstruction, target: Target, secret: Dataset
) -> tuple[Score, dict[str, Any], str]:
    """Scores a result, writes score.json and, for images, gallery.png.

    Returns the score, the JSON value, and a summary of recovered records (empty if the data are not a table).
    """
    from exhume.scoring.against_truth import score_on_dataset
    from exhume.scoring.gallery import draw_result
    from exhume.scoring.records import as_records
    from exhume.support import files

    folder.check_belongs(result, target)
    scored = score_on_dataset(result, secret, target.features)
    value = {
        "method": result.method,
        "verdict": result.certificate.verdict,
        "passes": result.passes,
        **scored.to_json(),
    }
    records = as_records(result, scored, secret.inputs, secret.table) if secret.table else None
    if records is not None:
        value["records"] = records.to_json()
    score_file, gallery = folder.judgements(result.method)
    files.write_json(score_file, value)
    if secret.picture is not None:
        draw_result(gallery, result, scored, secret.inputs, secret.picture.to_pictures)
    return scored, value, records.summary() if records else ""
