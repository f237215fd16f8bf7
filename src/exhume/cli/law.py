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
    json: Json = False,
) -> None:
    """Forecast whether the training data can be reconstructed from the weights.

    Example: exhume law --parameters 3e6 --dim 3072 --samples 100
    """
    result = forecast(whole(parameters), whole(dim), whole(samples), num_outputs=outputs, activation=activation)
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
