"""`exhume score`: compare a reconstruction with the truth, and draw the two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from exhume import files, scoring
from exhume.cli.render import Json, show
from exhume.data import PictureFormat
from exhume.errors import FileError
from exhume.gallery import save_gallery
from exhume.reconstruction import Reconstruction
from exhume.runs import RunFolder, Secret
from exhume.scoring import Score


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
    place = folder.attack(method)
    result, secret = Reconstruction.load(place), folder.load_secret()
    picture = PictureFormat.from_json(secret.picture) if secret.picture else None
    target = folder.load_target(memory_budget=memory_budget)
    if result.target != target.fingerprint:
        raise FileError(f"{place} holds a result for other weights than {folder.path} does now; attack it again")
    score_file, gallery = folder.judgements(method)
    judged = scoring.score(
        result,
        secret.inputs,
        non_members=secret.non_members if len(secret.non_members) else None,
        true_labels=secret.labels,
        to_pictures=picture.to_pictures if picture else None,
        features=target.features.forward,
    )
    value = {"method": method, "verdict": result.certificate.verdict, "passes": result.passes, **judged.to_json()}
    files.write_json(score_file, value)
    text = f"{method} on {folder.path}: {judged.summary()}"
    if picture is not None:
        draw(gallery, judged, result, secret, picture)
        text += f"\n  pictures: {gallery}"
    return value, text


def draw(path: Path, judged: Score, result: Reconstruction, secret: Secret, picture: PictureFormat) -> None:
    """Draws the matched pairs; signs and norms that the attack leaves open are taken from the truth."""
    truth = secret.inputs[[match.truth_index for match in judged.matches]]
    rows = result.samples[[match.row for match in judged.matches]].to(truth)
    if not result.norms_determined:
        rows = rows * (truth.norm(dim=1) / rows.norm(dim=1))[:, None]
    errors = [match.error for match in judged.matches]
    borrowed = [] if result.norms_determined else ["norms"]
    if not result.signs_determined:
        flipped = torch.tensor([match.flipped for match in judged.matches])
        rows = torch.where(flipped[:, None], -rows, rows)
        errors = [match.error_up_to_sign for match in judged.matches]
        borrowed.append("signs")
    title = f"{result.method}: {judged.recovered} of {judged.num_samples} recovered"
    if not result.signs_determined:
        title = f"{result.method}: {judged.recovered_up_to_sign} of {judged.num_samples} recovered up to sign"
    title += " (true above, recovered below with its error"
    title += f"; {' and '.join(borrowed)} drawn as in the truth)" if borrowed else ")"
    save_gallery(path, truth, rows, errors, picture.to_pictures, title=title)
