"""`exhume train two-layer | mlp | resnet | vit`: train a network and write its run folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from exhume.cli.options import parse_pairs
from exhume.cli.render import Json, show, training_progress_of
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
from exhume.networks import Network
from exhume.runs import RunFolder
from exhume.victims import Training, train
from exhume.victims.networks import target
from exhume.victims.sizes import WIDTH_SETTINGS, features_for, network_for, outputs_for

# p^(L) / (d n) of the paper's pictures from networks.
_RATIO = 4.0

Out = Annotated[Path, typer.Option(help="Run folder to write.")]
Width = Annotated[int | None, typer.Option(help="Width of the network.")]
Ratio = Annotated[
    float | None, typer.Option(help=f"Weights of the head / (d n), instead of --width; {_RATIO:g} if neither is given.")
]
Setting = Annotated[list[str] | None, typer.Option(help="A setting of the network, as name=value; may be repeated.")]
LossName = Annotated[str, typer.Option(help="square, logistic or cross-entropy.")]
StepSize = Annotated[
    float | None, typer.Option(help="Of gradient descent; the paper's is 1e-5 for square loss and 1e-3 for others.")
]
Stable = Annotated[
    bool | None,
    typer.Option(
        "--stable/--no-stable",
        help="Take a larger step that is stable too; by default yes, unless --step-size is given.",
    ),
]
WeightDecay = Annotated[float, typer.Option(help="Of all weights.")]
MaxSteps = Annotated[int, typer.Option(help="At most so many steps of the asked size; larger stable ones count more.")]
Seed = Annotated[int, typer.Option(help="Seed of the initial weights, and of data that are drawn.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted training.")]


@dataclass(frozen=True)
class Kind:
    """One command.

    Attributes:
        name: of the network and the command.
        summary: what it trains, for the help.
        defaults: per data set, options that hold if none are given: the paper's protocol where it has one.
    """

    name: str
    summary: str
    defaults: Mapping[str, Mapping[str, Any]]


KINDS = (
    Kind(
        "two-layer",
        "Train both layers of a two-layer network; the width is that of the hidden layer.",
        {"digits": {"samples": 10, "labels": "one-hot"}, "cifar10": {"classes": "all", "per_class": 1}},
    ),
    Kind(
        "mlp",
        "Train all layers of a perceptron without biases; the width is that of its two hidden layers, "
        "and others are given as --option hidden=[300,200,100].",
        {"digits": {"samples": 4}, "cifar10": {"per_class": 5}},
    ),
    Kind(
        "resnet",
        "Train the paper's residual network; the width is its number of channels.",
        {"digits": {"samples": 4}, "cifar10": {"standardise": "channel"}},
    ),
    Kind(
        "vit",
        "Train a vision transformer; the width is that of its tokens.",
        {
            "digits": {"samples": 5, "labels": "one-hot"},
            "cifar10": {"classes": "0,1,2,3,4", "per_class": 1, "standardise": "channel"},
        },
    ),
)


def command_for(kind: Kind) -> Callable[..., None]:
    """The command that trains networks of this kind."""

    def command(
        out: Out,
        dataset: Data = "digits",
        dim: Dim = None,
        samples: Samples = None,
        classes: Classes = None,
        per_class: PerClass = None,
        data_option: DataOption = None,
        width: Width = None,
        ratio: Ratio = None,
        option: Setting = None,
        loss: LossName = "square",
        step_size: StepSize = None,
        stable: Stable = None,
        weight_decay: WeightDecay = 0.0,
        max_steps: MaxSteps = 1_000_000,
        seed: Seed = 0,
        resume: Resume = False,
        json: Json = False,
    ) -> None:
        given = {"dim": dim, "samples": samples, "per_class": per_class, "classes": classes}
        training = load_data(dataset, given, data_option, seed, kind.defaults.get(dataset))
        network = _build(kind, training, width, ratio, parse_pairs(option), seed)
        folder = RunFolder(out)
        checkpoint = out / "training.safetensors"
        with training_progress_of(kind.name) as report:
            trained = train(
                network,
                training.inputs,
                training.labels,
                loss=loss,
                step_size=step_size,
                weight_decay=weight_decay,
                max_steps=max_steps,
                stable=step_size is None if stable is None else stable,
                progress=report,
                checkpoint=checkpoint,
                resume=resume,
            )
        knowledge = Knowledge.about(training.labels, interpolated=trained.interpolates)
        shape = training.picture.shape if training.picture else ()
        save_run(folder, target(trained, input_shape=shape, knowledge=knowledge), training)
        checkpoint.unlink(missing_ok=True)
        show(*_report(out, kind, trained, training), json)

    command.__doc__ = (
        f"{kind.summary}\n\nWrites what a thief would hold, with the secret truth apart from it.\n\n"
        f"Example: exhume train {kind.name} --data cifar10 --ratio 4 --out runs/c"
    )
    return command


def _build(
    kind: Kind, training: Dataset, width: int | None, ratio: float | None, settings: Mapping[str, Any], seed: int
) -> Network:
    if width is not None and ratio is not None:
        raise InputError("give either --width W or --ratio R (R = weights of the head / (d n)), and not both")
    asked = _RATIO if ratio is None else ratio
    return network_for(
        kind.name,
        training.inputs,
        training.labels,
        image_shape=training.picture.shape if training.picture else None,
        features=features_for(asked, training.inputs, outputs_for(training.labels)),
        width=width,
        settings=settings,
        seed=seed,
    )


def _report(out: Path, kind: Kind, trained: Training, training: Dataset) -> tuple[str, dict[str, Any]]:
    network = trained.network
    parameters = network.num_outputs * network.num_features
    law = forecast(
        parameters,
        training.input_dim,
        training.num_samples,
        num_outputs=network.num_outputs,
        activation=network.activation,
    )
    value = {
        "folder": str(out),
        "network": kind.name,
        "num_samples": training.num_samples,
        "input_dim": training.input_dim,
        "width": network.config[WIDTH_SETTINGS[kind.name]],
        "num_features": network.num_features,
        "num_outputs": network.num_outputs,
        "ratio": law.ratio,
        "loss": trained.loss_name,
        "training_loss": trained.loss,
        "steps": trained.steps,
        "converged": trained.converged,
        "step_size": trained.step_size,
        "weight_decay": trained.weight_decay,
        "drift": trained.drift,
        "note": trained.note,
        "verdict": law.verdict,
        "protocol": training.protocol,
    }
    ended = "" if trained.converged else ", where the limit of steps ended it"
    lines = [
        f"{out}: {kind.name} of width {value['width']} on {training.num_samples} samples of dimension "
        f"{training.input_dim}, p_L = {law.ratio:.3g} d n",
        f"  {trained.loss_name} loss {trained.loss:.2e} after {trained.steps} steps{ended}; "
        f"features moved by {100 * trained.drift:.2g} %",
        *([f"  {trained.note}"] if trained.note else []),
        f"  {training.protocol}",
        f"  {law.sentence}",
    ]
    return "\n".join(lines), value
