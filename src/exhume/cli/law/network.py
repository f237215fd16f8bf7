"""`exhume law --model`: equations of all layers of a network, as text or as one JSON object."""

from __future__ import annotations

from exhume.auditing.model_files import build_model, check_forward
from exhume.cli.options import parse_whole
from exhume.cli.render import show
from exhume.law import PER_SAMPLE
from exhume.planning import NetworkForecast, forecast_network
from exhume.support.text import table


def show_network(reference: str, input_shape: str, num_samples: int, activation: str | None, as_json: bool) -> None:
    """Prints the counts of one network.

    Args:
        reference: the factory, "mymodel.py:build".
        input_shape: of one input, "3,32,32".
        num_samples: n.
        activation: of the features that the head reads; None to tell it from them.
        as_json: whether to print JSON.
    """
    shape = tuple(parse_whole(side.strip(), "--input-shape", least=1) for side in input_shape.split(","))
    module = build_model(reference)
    check_forward(module, shape)
    counted = forecast_network(module, shape, num_samples, activation)
    show(_describe(counted), counted.to_json(), as_json)


def _describe(counted: NetworkForecast) -> str:
    """The sentence, what each attack could read, and a table of the layers."""
    spans = ", ".join(layer.name for layer in counted.spans) or "none: the samples fill every layer"
    unmix = f"no: {counted.unmix}" if counted.unmix else f"possible; about {counted.unmix_starts or 0:,} starts at most"
    if not counted.unmix and not counted.unmix_exact:
        unmix = "possible, approximately: the activation is smooth and leaves no exact zeros"
    law, each = counted.head, ""
    if law.binding == PER_SAMPLE:
        each = f"; of each sample {law.equations_per_sample:,} and {law.unknowns_per_sample:,}, which binds"
    head = f"{law.equations:,} equations, {law.unknowns:,} unknowns{each}: {law.verdict}"
    columns = ("layer", "kind", "inputs", "outputs", "positions", "weights", "most samples")
    rows = [
        [
            layer.name or "(the module itself)",
            layer.kind,
            *(f"{each:,}" for each in (layer.inputs, layer.outputs, layer.positions, layer.weights)),
            f"{layer.largest_samples:,}",
        ]
        for layer in counted.layers
    ]
    lines = [
        counted.sentence,
        f"  first layer (unmix)             {unmix}",
        f"  last layer (exact)              {head}",
        f"  one sample at a time (layers)   {spans}",
        f"  all layers (layers, replay)     {counted.num_parameters / counted.unknowns:.3g} equations per unknown",
        "",
        table(columns, rows, left=2),
        "",
        "most samples: so many do not fill the layer, and each can be tested alone.",
        "These are counts of equations. What an attack finds depends on the training too.",
    ]
    return "\n".join(lines)
