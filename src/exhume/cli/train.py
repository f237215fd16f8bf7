"""`exhume train`: make a victim and a run folder to attack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from exhume.cli.render import Json, show
from exhume.cli.training_runs import (
    Classes,
    Data,
    DataOption,
    Dim,
    PerClass,
    Samples,
    load_data,
    save_run,
)
from exhume.data import Dataset
from exhume.errors import InputError
from exhume.knowledge import Knowledge
from exhume.law import forecast
from exhume.runs import RunFolder
from exhume.victims import RandomFeatures
from exhume.victims.sizes import features_for

app = typer.Typer(no_args_is_help=True, help="Train a victim and write its run folder.")


@app.callback()
def _several() -> None:
    """Train a victim and write its run folder."""


@app.command("rf")
def random_features(
    out: Annotated[Path, typer.Option(help="Run folder to write.")],
    dataset: Data = "sphere",
    dim: Dim = None,
    samples: Samples = None,
    classes: Classes = None,
    per_class: PerClass = None,
    data_option: DataOption = None,
    features: Annotated[int | None, typer.Option(help="Number of random features, p.")] = None,
    ratio: Annotated[float | None, typer.Option(help="p / (d n), instead of --features.")] = None,
    activation: Annotated[str, typer.Option(help="Activation of the features.")] = "relu",
    loss: Annotated[str, typer.Option(help="square or logistic.")] = "square",
    ridge: Annotated[float, typer.Option(help="Ridge penalty, lambda of the paper's (168).")] = 0.0,
    max_steps: Annotated[int, typer.Option(help="Steps of gradient descent (logistic loss).")] = 1_000_000,
    prune: Annotated[float | None, typer.Option(help="Prune to this share of the features after training.")] = None,
    prune_method: Annotated[str, typer.Option(help="obs (Optimal Brain Surgeon) or magnitude.")] = "obs",
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    seed: Annotated[int, typer.Option(help="Seed of the features, and of the data where they are drawn.")] = 0,
    memory_budget: Annotated[str, typer.Option(help="Memory for the random features matrix.")] = "4GB",
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda, ...")] = "cpu",
    json: Json = False,
) -> None:
    """Train a random-features model and write what a thief would hold, with the secret truth apart from it.

    Example: exhume train rf --data sphere --dim 30 --samples 20 --ratio 20 --seed 0 --out runs/a
    """
    given = {"dim": dim, "samples": samples, "per_class": per_class, "classes": classes}
    training = load_data(dataset, given, data_option, seed)
    victim = RandomFeatures(
        num_features=_width(features, ratio, training),
        activation=activation,
        loss=loss,  # type: ignore[arg-type]  # checked by fit
        ridge=ridge,
        max_steps=max_steps,
        seed=seed,
        dtype=dtype,
        memory_budget=memory_budget,
        device=device,
    ).fit(training.inputs, training.labels)
    if prune is not None:
        victim = victim.prune(training.inputs, training.labels, prune, prune_method)  # type: ignore[arg-type]
    write_run(RunFolder(out), victim, training)
    show(*_report(out, victim, training), json)


def write_run(folder: RunFolder, victim: RandomFeatures, training: Dataset) -> None:
    """Writes the public part and, apart from it, the truth."""
    knowledge = Knowledge.about(training.labels, interpolated=victim.interpolates)
    shape = training.picture.shape if training.picture else ()
    save_run(folder, victim.target(input_shape=shape, knowledge=knowledge), training)


def _width(features: int | None, ratio: float | None, training: Dataset) -> int:
    if (features is None) == (ratio is None):
        raise InputError("give either --features P or --ratio R (R = p / (d n)), and not both")
    if features is not None:
        return features
    assert ratio is not None
    return max(1, round(features_for(ratio, training.inputs)))


def _report(out: Path, victim: RandomFeatures, training: Dataset) -> tuple[str, dict[str, Any]]:
    outputs, width = victim.theta_.shape
    law = forecast(
        outputs * width,
        training.input_dim,
        training.num_samples,
        num_outputs=outputs,
        activation=victim.feature_map_.activation.name,
    )
    value = {
        "folder": str(out),
        "num_samples": training.num_samples,
        "input_dim": training.input_dim,
        "num_features": width,
        "ratio": law.ratio,
        "training_loss": victim.training_loss_,
        "verdict": law.verdict,
        "protocol": training.protocol,
    }
    text = (
        f"{out}: {width} random features on {training.num_samples} samples of dimension {training.input_dim}, "
        f"training loss {victim.training_loss_:.2e}\n  {training.protocol}\n  {law.sentence}"
    )
    return text, value
