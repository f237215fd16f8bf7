"""What the attacker is assumed to know, from the command line: --know name=value, --forget name, --num-samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from exhume.cli.options import split_pair, whole
from exhume.errors import InputError
from exhume.known_values import NAMES, known_name, known_value
from exhume.target import Target

AUTO = "auto"

NumSamples = Annotated[
    str | None,
    typer.Option(help=f"How many samples to look for, or {AUTO} to estimate it; by default what victim.json says."),
]
Know = Annotated[
    list[str] | None,
    typer.Option(
        help="What the attacker knows besides the weights, as name=value; may be repeated. Samples, labels and a "
        f"subspace are read from a .npy or .safetensors file. Names: {', '.join(NAMES)}."
    ),
]
Forget = Annotated[
    list[str] | None,
    typer.Option(help="What the attacker does not know although victim.json says it; may be repeated."),
]


def assume(target: Target, know: list[str] | None, forget: list[str] | None, num_samples: str | None) -> Target:
    """The target under the knowledge that the command line asks for.

    `--num-samples N` is the same as `--know num_samples=N`, and `--num-samples auto` as `--forget num_samples`.
    """
    pairs, names = list(know or []), [known_name(name) for name in forget or []]
    if num_samples == AUTO:
        names.append("num_samples")
    elif num_samples is not None:
        pairs.append(f"num_samples={whole(num_samples, '--num-samples')}")
    texts = [split_pair(pair) for pair in pairs]
    _check_once([known_name(name) for name, _ in texts] + names)
    values = {known_name(name): known_value(known_name(name), text) for name, text in texts}
    if not values and not names:
        return target
    assumed = target.with_knowledge(target.knowledge.without(*names).knowing(**values))
    assumed.knowledge.pixel_bounds(assumed.input_shape)  # an error now is better than in the midst of an attack
    return assumed


def _check_once(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{name} is said twice; give one of --know {name}=..., --forget {name} or --num-samples")
        seen.add(name)
