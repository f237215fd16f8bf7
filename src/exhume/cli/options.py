"""Options that several commands share, and how their values are read.

Nothing here imports torch, so that a command can show its help without it.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exhume.errors import InputError

if TYPE_CHECKING:
    from exhume.data import Dataset
    from exhume.run_folder import RunFolder
    from exhume.target.target import Target

LARGEST = 1e18  # whole number on the command line: products of three of them do not overflow a float
AUTO = "auto"
# An attack is a module of exhume.attacks and has its name. Listing the files needs no torch, importing them does.
ATTACK_NAMES = sorted(file.stem for file in (Path(__file__).parents[1] / "attacks").glob("[a-z]*.py"))
# The fields of exhume.Knowledge, which needs torch.
KNOWLEDGE_NAMES = (
    "num_samples",
    "samples",
    "labels",
    "label_alphabet",
    "norm",
    "pixel_range",
    "pixel_mean",
    "pixel_std",
    "column_mean",
    "column_std",
    "subspace",
    "public",
    "recipe",
    "initial_head",
    "initial_body",
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else.")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, ...")]
Scheduler = Annotated[str | None, typer.Option(help="Address of a Dask scheduler, tcp://host:port.")]
Workers = Annotated[int | None, typer.Option(help="Processes on this machine; by default as many as cores.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Try failed cells again.")]
Data = Annotated[str, typer.Option("--data", help="Name of a data set; `exhume data` lists them.")]


@dataclass(frozen=True)
class AttackOptions:
    """What the commands that attack share: what the attacker knows, the budget, and where to compute."""

    num_samples: Annotated[
        str | None,
        typer.Option(help=f"How many samples to look for, or {AUTO} to estimate it; by default as victim.json says."),
    ] = None
    know: Annotated[
        list[str] | None,
        typer.Option(
            help="What the attacker knows besides the weights, as name=value; may be repeated. Samples, labels and a "
            "subspace are read from a .npy or .safetensors file, a recipe from a .yaml file. Names: "
            f"{', '.join(KNOWLEDGE_NAMES)}."
        ),
    ] = None
    forget: Annotated[
        list[str] | None,
        typer.Option(help="Name of something in victim.json that the attacker does not know; may be repeated."),
    ] = None
    recipe: Annotated[
        Path | None, typer.Option(help="How the model was trained, a YAML file of optimiser, steps and so on: replay.")
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of the attack's own random numbers.")] = 0
    budget_passes: Annotated[float, typer.Option(help="Stop after this many feature passes.")] = float("inf")
    budget_seconds: Annotated[
        float, typer.Option(help="Stop after this many seconds; results then depend on the machine.")
    ] = float("inf")
    allow_underdetermined: Annotated[
        bool, typer.Option("--allow-underdetermined", help="Run even with fewer equations than unknowns.")
    ] = False
    memory_budget: Annotated[
        str,
        typer.Option(
            help="Memory that one process may use for V, the random features matrix. The part of V that does not fit "
            "is generated again on every read. Other arrays need memory too: see exhume law --cost."
        ),
    ] = "4GB"
    device: Device = "cpu"

    def load_target(self, folder: RunFolder) -> Target:
        """The target of a run folder, with the knowledge that the options ask for."""
        target = folder.load_target(memory_budget=self.memory_budget, device=self.device)
        know = [*(self.know or ()), *([f"recipe={self.recipe}"] if self.recipe else ())]
        return with_knowledge(target, know, self.forget, self.num_samples)

    def settings(self) -> dict[str, Any]:
        """The settings of a call of an attack."""
        return {
            "seed": self.seed,
            "max_passes": self.budget_passes,
            "max_seconds": self.budget_seconds,
            "allow_underdetermined": self.allow_underdetermined,
        }


@dataclass(frozen=True)
class DataOptions:
    """What the commands that train share: which samples of a data set to take."""

    dim: Annotated[int | None, typer.Option(help="Input dimension (sphere).")] = None
    samples: Annotated[int | None, typer.Option(help="Training samples (sphere, digits, arrays).")] = None
    classes: Annotated[str | None, typer.Option(help="Class names, separated by commas.")] = None
    per_class: Annotated[int | None, typer.Option(help="Training samples of each class.")] = None
    data_option: Annotated[
        list[str] | None, typer.Option(help="Another option of the data set, as name=value; may be repeated.")
    ] = None

    def load(self, name: str, seed: int, defaults: Mapping[str, Any] | None = None) -> Dataset:
        """Loads the training data; options that were given override the defaults, and --data-option both."""
        from exhume import data

        given = asdict(self)
        others = parse_pairs(given.pop("data_option"))
        options = {**(defaults or {}), **{key: value for key, value in given.items() if value is not None}, **others}
        if "seed" in data.options_of(name):
            options.setdefault("seed", seed)
        return data.load(name, **options)


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command for typer: a parameter that is a dataclass of options is replaced by these options."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {each.name: each.annotation for each in own if is_dataclass(each.annotation)}
    options: list[inspect.Parameter] = []
    for each in own:
        group = groups.get(each.name)
        options += [each] if group is None else inspect.signature(group, eval_str=True).parameters.values()

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    options = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options]
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in options}
    return run


def parse_pairs(pairs: list[str] | None) -> dict[str, Any]:
    """{"max_steps": 5000} from ["max-steps=5000"]; a value that is not JSON stays a string."""
    options: dict[str, Any] = {}
    for pair in pairs or []:
        name, text = split_pair(pair)
        try:
            options[name.replace("-", "_")] = json.loads(text)
        except ValueError:
            options[name.replace("-", "_")] = text
    return options


def split_pair(pair: str) -> tuple[str, str]:
    """("max-steps", "5000") from "max-steps=5000"."""
    name, separator, text = pair.partition("=")
    if not separator:
        raise InputError(f"option {pair!r} is not of the form name=value; write for instance max_steps=5000")
    return name, text


def parse_whole(text: str, option: str, least: int | None = None) -> int:
    """The whole number given for an option, written 3000000 or 3e6."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number.is_integer():
        raise InputError(f"{option} {text!r} is not a whole number; write for instance 3000000 or 3e6")
    if number > LARGEST:
        raise InputError(f"{option} is {text}; valid: at most 1e18")
    if least is not None and number < least:
        raise InputError(f"{option} is {text}; valid: a whole number of at least {least}")
    return int(number)


def with_knowledge(target: Target, know: list[str] | None, forget: list[str] | None, num_samples: str | None) -> Target:
    """The target with the knowledge that --know, --forget and --num-samples ask for.

    `--num-samples N` means `--know num_samples=N`, and `--num-samples auto` means `--forget num_samples`.
    """
    from exhume.target.knowledge_text import known_name, known_value

    pairs, forgotten = list(know or []), [known_name(name) for name in forget or []]
    if num_samples == AUTO:
        forgotten.append("num_samples")
    elif num_samples is not None:
        pairs.append(f"num_samples={parse_whole(num_samples, '--num-samples')}")
    texts = [(known_name(name), text) for name, text in map(split_pair, pairs)]
    named = [name for name, _ in texts] + forgotten
    for name in named:
        if named.count(name) > 1:
            raise InputError(
                f"{name} is given twice; valid: only one of --know {name}=..., --forget {name} and --num-samples"
            )
    values = {name: known_value(name, text) for name, text in texts}
    if not values and not forgotten:
        return target
    changed = target.with_knowledge(target.knowledge.without(*forgotten).knowing(**values))
    changed.knowledge.pixel_bounds(changed.input_shape)  # raises here if they do not fit, not during the attack
    return changed
