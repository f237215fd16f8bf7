"""What every `exhume train` command shares: loading its data, its width by the law's ratio, its run folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from exhume import data
from exhume.cli.options import parse_pairs
from exhume.data import Dataset
from exhume.runs import RunFolder, Secret
from exhume.target import Target

Data = Annotated[str, typer.Option("--data", help="A data set's name; `exhume data` lists them.")]
Dim = Annotated[int | None, typer.Option(help="Input dimension (sphere).")]
Samples = Annotated[int | None, typer.Option(help="Training samples (sphere, digits, arrays).")]
Classes = Annotated[str | None, typer.Option(help="Class names, separated by commas.")]
PerClass = Annotated[int | None, typer.Option(help="Training samples of each class.")]
DataOption = Annotated[
    list[str] | None, typer.Option(help="Another option of the data set, as name=value; may be repeated.")
]


def load_data(
    name: str, given: Mapping[str, Any], pairs: list[str] | None, seed: int, defaults: Mapping[str, Any] | None = None
) -> Dataset:
    """The training data.

    Args:
        name: of the data set.
        given: options of the command line, None where not given.
        pairs: further ones, as name=value.
        seed: for data sets that are drawn.
        defaults: options where neither says anything.
    """
    options = {key: value for key, value in given.items() if value is not None}
    options = {**(defaults or {}), **options, **parse_pairs(pairs)}
    if "seed" in data.options_of(name):
        options.setdefault("seed", seed)
    return data.load(name, **options)


def save_run(folder: RunFolder, target: Target, training: Dataset) -> None:
    """Writes the public part and, apart from it, the truth."""
    folder.save_target(target)
    folder.save_secret(
        Secret(
            training.inputs,
            training.labels,
            training.non_members,
            training.picture.to_json() if training.picture else None,
            training.protocol,
            training.table.to_json() if training.table else None,
        )
    )
