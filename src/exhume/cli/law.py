"""`exhume law`: what the law of data reconstruction says of given sizes, and numerical tests of what it rests on."""

from __future__ import annotations

from typing import Annotated

import typer

from exhume.cli.law_verify import verify_law
from exhume.cli.options import whole
from exhume.cli.render import Json, show
from exhume.errors import InputError
from exhume.law import forecast


def law(
    parameters: Annotated[str | None, typer.Option(help="Weights of the trained layer, p; 3e6 is understood.")] = None,
    dim: Annotated[str | None, typer.Option(help="Input dimension, d.")] = None,
    samples: Annotated[str | None, typer.Option(help="Training samples, n.")] = None,
    outputs: Annotated[int, typer.Option(help="Outputs of the layer, k.")] = 1,
    activation: Annotated[str, typer.Option(help="Activation: it decides whether norms count as unknowns.")] = "relu",
    known_samples: Annotated[str, typer.Option(help="How many of the samples the attacker holds already.")] = "0",
    subspace_dim: Annotated[
        str | None, typer.Option(help="Dimension of a known subspace with the samples in it; it stands in for d.")
    ] = None,
    norms_known: Annotated[bool, typer.Option("--norms-known", help="The norms of the samples are known.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Test numerically what the theorems rest on; takes no sizes.")
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of --verify; 0 unless given.")] = None,
    json: Json = False,
) -> None:
    """Forecast whether the training data can be reconstructed from the weights, or verify the theory.

    Example: exhume law --parameters 3e6 --dim 3072 --samples 100

    Example: exhume law --verify
    """
    if verify:
        sizes = {"--parameters": parameters, "--dim": dim, "--samples": samples}
        given = [option for option, value in sizes.items() if value is not None]
        if given:
            raise InputError(f"--verify was given {', '.join(given)}; valid: no sizes, it chooses its own")
        verify_law(seed or 0, json)
        return
    if seed is not None:
        raise InputError(f"--seed is {seed} without --verify; a forecast has no seed")
    result = forecast(
        _required("--parameters", parameters),
        _required("--dim", dim),
        _required("--samples", samples),
        num_outputs=outputs,
        activation=activation,
        known_samples=whole(known_samples),
        subspace_dim=None if subspace_dim is None else whole(subspace_dim),
        norms_known=norms_known,
    )
    text = [
        result.sentence,
        f"  equations               {result.equations}",
        f"  unknowns                {result.unknowns}",
        f"  p / (d n)               {result.ratio:.4g}",
        f"  verdict                 {result.verdict}",
        f"  fewest parameters       {result.smallest_parameters}",
        f"  comfortable parameters  {result.comfortable_parameters}",
        f"  most samples            {result.largest_samples}",
    ]
    show("\n".join(text), result.to_json(), json)


def _required(option: str, value: str | None) -> int:
    """The whole number given for an option that a forecast cannot do without."""
    if value is None:
        raise InputError(f"missing option {option}; valid: {option} with a whole number, or --verify alone")
    return whole(value)
