"""`exhume train`: train a victim and write its run folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from exhume.cli.interruption import interruptible
from exhume.cli.options import Data, DataOptions, Device, Json, parse_pairs, with_option_groups
from exhume.cli.render import show, training_progress
from exhume.errors import InputError
from exhume.law import Forecast, forecast

if TYPE_CHECKING:
    from exhume.data import Dataset
    from exhume.networks import Network
    from exhume.run_folder import RunFolder
    from exhume.victims import RandomFeatures, Training

# Weights of the head / (d n) of the paper's images from networks.
_RATIO = 4.0
# Defaults of networks without a recipe.
_LOSS, _MAX_STEPS = "square", 1_000_000
# What --json holds of a network's training.
_TRAINING_NUMBERS = ("steps", "converged", "step_size", "weight_decay", "drift", "note")

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="Train a victim and write its run folder."
)

Out = Annotated[Path, typer.Option(help="Run folder to write.")]
Seed = Annotated[int, typer.Option(help="Seed of the model's random weights, and of data that are drawn at random.")]


@dataclass(frozen=True)
class RandomFeaturesOptions:
    """Settings of `exhume.RandomFeatures`."""

    activation: Annotated[str, typer.Option(help="Activation of the features.")] = "relu"
    loss: Annotated[str, typer.Option(help="square or logistic.")] = "square"
    ridge: Annotated[float, typer.Option(help="Ridge penalty, lambda in the paper's Eq. (168).")] = 0.0
    max_steps: Annotated[int, typer.Option(help="Steps of gradient descent (logistic loss).")] = 1_000_000
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32"
    seed: Seed = 0
    memory_budget: Annotated[str, typer.Option(help="Memory for the random features matrix.")] = "4GB"
    device: Device = "cpu"


@app.command("rf")
@with_option_groups
def random_features(
    *,
    out: Out,
    dataset: Data = "sphere",
    which: DataOptions,
    settings: RandomFeaturesOptions,
    features: Annotated[int | None, typer.Option(help="Number of random features, p.")] = None,
    ratio: Annotated[float | None, typer.Option(help="p / (d n), instead of --features.")] = None,
    prune: Annotated[float | None, typer.Option(help="Prune to this share of the features after training.")] = None,
    prune_method: Annotated[str, typer.Option(help="obs (Optimal Brain Surgeon) or magnitude.")] = "obs",
    json: Json = False,
) -> None:
    """Train a random-features model. Writes what an adversary would hold and, in a file of its own, the true data.

    Example: exhume train rf --data sphere --dim 30 --samples 20 --ratio 20 --seed 0 --out runs/a
    """
    from exhume.run_folder import RunFolder
    from exhume.victims import RandomFeatures

    training = which.load(dataset, settings.seed)
    victim = RandomFeatures(_num_features(features, ratio, training), **asdict(settings))
    victim.fit(training.inputs, training.labels)
    if prune is not None:
        victim = victim.prune(training.inputs, training.labels, prune, prune_method)  # type: ignore[arg-type]
    write_run(RunFolder(out), victim, training)
    outputs, width = victim.theta_.shape
    law = _forecast(training, outputs, width, victim.feature_map_.activation.name)
    value = {"num_features": width, "training_loss": victim.training_loss_}
    notes = [f"training loss {victim.training_loss_:.2e}"]
    _show_run(out, training, law, f"{width} random features", notes, value, json)


@dataclass(frozen=True)
class NetworkKind:
    """A kind of network, with a command of its own; `defaults` are the data options of the paper, by data set."""

    name: str
    summary: str
    defaults: Mapping[str, Mapping[str, Any]]


def _network_kinds() -> list[NetworkKind]:
    listed = yaml.safe_load(Path(__file__).with_name("network_kinds.yaml").read_text(encoding="utf-8"))
    return [NetworkKind(name, **described) for name, described in listed.items()]


def _network_command(kind: NetworkKind) -> Callable[..., None]:
    """The command that trains networks of this kind."""

    @with_option_groups
    def command(
        *,
        out: Out,
        dataset: Data = "digits",
        which: DataOptions,
        width: Annotated[int | None, typer.Option(help="Width of the network.")] = None,
        ratio: Annotated[
            float | None,
            typer.Option(help=f"Weights of the head / (d n), instead of --width; {_RATIO:g} if neither is given."),
        ] = None,
        option: Annotated[
            list[str] | None, typer.Option(help="A setting of the network, as name=value; may be repeated.")
        ] = None,
        loss: Annotated[str, typer.Option(help="square, logistic or cross-entropy.")] = _LOSS,
        step_size: Annotated[
            float | None,
            typer.Option(help="Step of gradient descent; the paper's is 1e-5 for square loss and 1e-3 for others."),
        ] = None,
        stable: Annotated[
            bool | None,
            typer.Option(
                "--stable/--no-stable",
                help="Take a larger step that is stable too; by default yes, unless --step-size is given.",
            ),
        ] = None,
        weight_decay: Annotated[float, typer.Option(help="Weight decay of all weights.")] = 0.0,
        max_steps: Annotated[
            int, typer.Option(help="Most steps of the size asked for; a larger stable step counts as several.")
        ] = _MAX_STEPS,
        recipe: Annotated[
            Path | None,
            typer.Option(help="YAML file of an exhume.Recipe (Adam, momentum, batches), instead of these options."),
        ] = None,
        seed: Seed = 0,
        resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted training.")] = False,
        json: Json = False,
    ) -> None:
        from exhume.run_folder import RunFolder
        from exhume.training.by_recipe import train_by_recipe
        from exhume.training.recipe import Recipe
        from exhume.victims import train

        given = (step_size, stable, weight_decay, loss, max_steps, resume)
        if recipe is not None and given != (None, None, 0.0, _LOSS, _MAX_STEPS, False):
            raise InputError("a recipe says how to train; leave out --step-size, --loss, --resume and the like")
        training = which.load(dataset, seed, kind.defaults.get(dataset))
        network = _build_network(kind, training, width, ratio, parse_pairs(option), seed)
        checkpoint = out / "training.safetensors"
        with interruptible(lambda: [checkpoint], "--resume"), training_progress(kind.name) as report:
            if recipe is not None:
                trained = train_by_recipe(network, training.inputs, training.labels, Recipe.read(recipe))
            else:
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
        write_run(RunFolder(out), trained, training)
        checkpoint.unlink(missing_ok=True)
        _show_network(out, kind, trained, training, json)

    command.__doc__ = (
        f"{kind.summary}\n\nWrites what an adversary would hold and, in a file of its own, the true data.\n\n"
        f"Example: exhume train {kind.name} --data cifar10 --ratio 4 --out runs/c"
    )
    return command


for _kind in _network_kinds():
    app.command(_kind.name)(_network_command(_kind))


def write_run(folder: RunFolder, model: RandomFeatures | Training, training: Dataset) -> None:
    """Writes what an adversary would hold and, in a file of its own, the true data."""
    from exhume.target.knowledge import Knowledge
    from exhume.victims import RandomFeatures
    from exhume.victims.trained_network import target

    knowledge = Knowledge.about(training.labels, interpolated=model.interpolates)
    shape = training.picture.shape if training.picture else ()
    if isinstance(model, RandomFeatures):
        folder.save_target(model.target(input_shape=shape, knowledge=knowledge))
    else:
        folder.save_target(target(model, input_shape=shape, knowledge=knowledge))
    folder.save_secret(training)


def _num_features(features: int | None, ratio: float | None, training: Dataset) -> int:
    from exhume.victims.trained_network import features_for

    if ratio is not None and features is None:
        return max(1, round(features_for(ratio, training.inputs)))
    if features is None or ratio is not None:
        raise InputError("give either --features P or --ratio R (R = p / (d n)), and not both")
    return features


def _build_network(
    kind: NetworkKind, training: Dataset, width: int | None, ratio: float | None, settings: Mapping[str, Any], seed: int
) -> Network:
    from exhume.victims.trained_network import WIDTH_SETTINGS, features_for, network_for, outputs_for

    if width is not None and ratio is not None:
        raise InputError("give either --width W or --ratio R (R = weights of the head / (d n)), and not both")
    return network_for(
        kind.name,
        training.inputs,
        training.labels,
        image_shape=training.picture.shape if training.picture else None,
        features=features_for(_RATIO if ratio is None else ratio, training.inputs, outputs_for(training.labels)),
        settings=settings if width is None else {WIDTH_SETTINGS[kind.name]: width, **settings},
        seed=seed,
    )


def _forecast(training: Dataset, outputs: int, features: int, activation: str) -> Forecast:
    return forecast(outputs * features, training.input_dim, training.num_samples, outputs, activation)


def _show_network(out: Path, kind: NetworkKind, trained: Training, training: Dataset, json: bool) -> None:
    from exhume.victims.trained_network import WIDTH_SETTINGS

    network = trained.network
    law = _forecast(training, network.num_outputs, network.num_features, network.activation)
    width = network.config[WIDTH_SETTINGS[kind.name]]
    value = {
        "network": kind.name,
        "width": width,
        "num_features": network.num_features,
        "num_outputs": network.num_outputs,
        "loss": trained.loss_name,
        "training_loss": trained.loss,
    }
    value |= {name: getattr(trained, name) for name in _TRAINING_NUMBERS}
    ended = "" if trained.converged else ", the limit of steps"
    notes = [
        f"{trained.loss_name} loss {trained.loss:.2e} after {trained.steps} steps{ended}; "
        f"features moved by {100 * trained.drift:.2g} %",
        *([trained.note] if trained.note else []),
    ]
    _show_run(out, training, law, f"{kind.name} of width {width}", notes, value, json)


def _show_run(
    out: Path, training: Dataset, law: Forecast, model: str, notes: Sequence[str], value: dict[str, Any], json: bool
) -> None:
    """Prints what was trained on which data, and the law's forecast; `value` is what the JSON holds of the model."""
    shared = {
        "folder": str(out),
        "num_samples": training.num_samples,
        "input_dim": training.input_dim,
        "ratio": law.ratio,
        "verdict": law.verdict,
        "protocol": training.protocol,
    }
    sizes = f"{training.num_samples} samples of dimension {training.input_dim}, p_L = {law.ratio:.3g} d n"
    text = [f"{out}: {model} on {sizes}", *notes, training.protocol, law.sentence]
    show("\n  ".join(text), shared | value, json)
