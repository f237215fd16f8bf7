"""`exhume demo`: recover training images from a model's weights, in a minute, with nothing to prepare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from exhume.cli.attack import run_attack
from exhume.cli.options import Json
from exhume.cli.render import show
from exhume.cli.score import score_run
from exhume.cli.train import write_run
from exhume.law import forecast

SAMPLES = 20
RATIO = 5


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the model, the samples and the pictures.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the model and of the attack.")] = 0,
    json: Json = False,
) -> None:
    """Train a model on 20 digits and recover them from its weights.

    Example: exhume demo --out demo
    """
    from exhume import attacks, data
    from exhume.run_folder import RunFolder
    from exhume.support import files
    from exhume.victims import RandomFeatures

    training = data.load("digits", samples=SAMPLES)
    width = RATIO * training.input_dim * training.num_samples
    victim = RandomFeatures(num_features=width, seed=seed).fit(training.inputs, training.labels)
    folder = RunFolder(out)
    write_run(folder, victim, training)
    result = run_attack(folder, attacks.build("exact"), folder.load_target(), seed=seed)
    value, scored = score_run(folder, result.method)
    law = forecast(width, training.input_dim, training.num_samples)
    gallery = out / "gallery.png"
    files.write_bytes(gallery, (folder.attack(result.method) / "gallery.png").read_bytes())
    text = [
        f"A model with {width} weights was trained on {SAMPLES} digits of 8 x 8 pixels.",
        f"Forecast: {law.sentence}",
        result.summary(),
        scored,
        "",
        f"Recovered {value['recovered']} of {SAMPLES} training images. Look at {gallery}",
        f"Next: exhume report {out} writes a page on this attack, exhume audit --help is about your own model.",
    ]
    show("\n".join(text), {**value, "gallery": str(gallery)}, json)
