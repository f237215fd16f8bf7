"""`exhume law`: what the law of data reconstruction says of given sizes."""

from __future__ import annotations

from typing import Annotated

import typer

from exhume.cli.options import whole
from exhume.cli.render import Json, show
from exhume.law import forecast


def law(
    parameters: Annotated[str, typer.Option(help="Weights of the trained layer, p; 3e6 is understood.")],
    dim: Annotated[str, typer.Option(help="Input dimension, d.")],
    samples: Annotated[str, typer.Option(help="Training samples, n.")],
    outputs: Annotated[int, typer.Option(help="Outputs of the layer, k.")] = 1,
    activation: Annotated[str, typer.Option(help="Activation: it decides whether norms count as unknowns.")] = "relu",
    known_samples: Annotated[str, typer.Option(help="How many of the samples the attacker holds already.")] = "0",
    subspace_dim: Annotated[
        str | None, typer.Option(help="Dimension of a known subspace with the samples in it; it stands in for d.")
    ] = None,
    norms_known: Annotated[bool, typer.Option("--norms-known", help="The norms of the samples are known.")] = False,
    json: Json = False,
) -> None:
    """Forecast whether the training data can be reconstructed from the weights.

    Example: exhume law --parameters 3e6 --dim 3072 --samples 100
    """
    result = forecast(
        whole(parameters),
        whole(dim),
        whole(samples),
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
