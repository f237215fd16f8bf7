"""`exhume train`: make a victim and a run folder to attack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from exhume import data
from exhume.cli.options import parse_pairs
from exhume.cli.render import Json, show
from exhume.data import Dataset
from exhume.errors import InputError
from exhume.law import forecast
from exhume.runs import RunFolder, Secret
from exhume.target import Knowledge
from exhume.victims import RandomFeatures

# Mean squared error up to which a model counts as fitting its labels exactly.
_INTERPOLATED = 1e-8

app = typer.Typer(no_args_is_help=True, help="Train a victim and write its run folder.")


@app.callback()
def _several() -> None:
    """Train a victim and write its run folder."""


@app.command("rf")
def random_features(
    out: Annotated[Path, typer.Option(help="Run folder to write.")],
    dataset: Annotated[str, typer.Option("--data", help="A data set's name; `exhume data` lists them.")] = "sphere",
    dim: Annotated[int | None, typer.Option(help="Input dimension (sphere).")] = None,
    samples: Annotated[int | None, typer.Option(help="Training samples (sphere, digits, arrays).")] = None,
    classes: Annotated[str | None, typer.Option(help="Class names, separated by commas.")] = None,
    per_class: Annotated[int | None, typer.Option(help="Training samples of each class.")] = None,
    data_option: Annotated[
        list[str] | None, typer.Option(help="Another option of the data set, as name=value; may be repeated.")
    ] = None,
    features: Annotated[int | None, typer.Option(help="Number of random features, p.")] = None,
    ratio: Annotated[float | None, typer.Option(help="p / (d n), instead of --features.")] = None,
    activation: Annotated[str, typer.Option(help="Activation of the features.")] = "relu",
    loss: Annotated[str, typer.Option(help="square or logistic.")] = "square",
    ridge: Annotated[float, typer.Option(help="Ridge penalty, lambda of the paper's (168).")] = 0.0,
    max_steps: Annotated[int, typer.Option(help="Steps of gradient descent (logistic loss).")] = 1_000_000,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    seed: Annotated[int, typer.Option(help="Seed of the features, and of the data where they are drawn.")] = 0,
    memory_budget: Annotated[str, typer.Option(help="Memory for the random features matrix.")] = "4GB",
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda, ...")] = "cpu",
    json: Json = False,
) -> None:
    """Train a random-features model and write what a thief would hold, with the secret truth apart from it.

    Example: exhume train rf --data sphere --dim 30 --samples 20 --ratio 20 --seed 0 --out runs/a
    """
    options = {"dim": dim, "samples": samples, "per_class": per_class, **parse_pairs(data_option)}
    options["classes"] = classes.split(",") if classes else None
    if "seed" in data.options_of(dataset):
        options.setdefault("seed", seed)
    training = data.load(dataset, **{name: value for name, value in options.items() if value is not None})
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
    write_run(RunFolder(out), victim, training)
    show(*_report(out, victim, training), json)


def write_run(folder: RunFolder, victim: RandomFeatures, training: Dataset) -> None:
    """Writes the public part and, apart from it, the truth."""
    picture = training.picture
    interpolated = victim.loss == "square" and victim.ridge == 0 and victim.training_loss_ < _INTERPOLATED
    knowledge = Knowledge.about(training.labels, interpolated=interpolated)
    folder.save_target(victim.target(input_shape=picture.shape if picture else (), knowledge=knowledge))
    folder.save_secret(
        Secret(
            training.inputs,
            training.labels,
            training.non_members,
            picture.to_json() if picture else None,
            training.protocol,
        )
    )


def _width(features: int | None, ratio: float | None, training: Dataset) -> int:
    if (features is None) == (ratio is None):
        raise InputError("give either --features P or --ratio R (R = p / (d n)), and not both")
    if features is not None:
        return features
    assert ratio is not None
    if not 0 < ratio < float("inf"):
        raise InputError(f"--ratio must be a positive number, got {ratio}")
    return max(1, round(ratio * training.input_dim * training.num_samples))


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
