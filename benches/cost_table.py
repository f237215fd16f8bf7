"""What attacks on well-known data sets would cost, up to ImageNet, on this machine and on GPUs in stated numbers."""

from __future__ import annotations

from dataclasses import replace

from benches.problems import table
from exhume.planning import GPU, Hardware, Outlook, outlook
from exhume.planning.passes import law_of_passes
from exhume.support.text import long_duration, number, plural, size

# One adapter of 400 Gb/s for each GPU, as in a DGX H100 (user guide, network modules), half of it sustained.
THOUSAND_GPUS = replace(GPU, name="a thousand GPUs", processes=1000, network=25e9)


def main() -> None:
    rows = outlook(Hardware.probe(), others=(GPU, THOUSAND_GPUS))
    fitted = law_of_passes(1)
    print("What an attack takes (one output; memory of a single process):\n")
    print_needs(rows)
    print(
        f"\npasses = {fitted.formula}, fitted to {len(fitted.measurements)} measurements and off by a factor of "
        f"{fitted.misfit:.2f} at most; ~ marks sizes beyond them.\n\nHow long it takes:\n"
    )
    print_times(rows)
    print("\nWhether the last layer of a network that people train determines the samples:\n")
    print_last_layers(rows)


def print_needs(rows: list[Outlook]) -> None:
    """What each data set takes on any hardware."""
    table(
        ("data", "d", "n", "p = 3dn", "V", "memory, V kept", "V regenerated", "passes", "operations"),
        [
            (
                row.data,
                f"{row.law.input_dim:,}",
                f"{row.law.num_samples:,}",
                number(row.law.num_parameters),
                size(row.cost.matrix_bytes),
                size(row.cost.memory_kept),
                size(row.cost.memory_regenerated),
                f"{'~' if row.cost.extrapolated else ''}{number(row.cost.passes)}",
                f"{row.cost.flops:.1e}",
            )
            for row in rows
        ],
    )


def print_times(rows: list[Outlook]) -> None:
    """How long each takes on each hardware, and which one suffices."""
    cells = []
    for row in rows:
        seconds = [each.cost.seconds if each.cost else None for each in row.plans]
        times = ["does not fit" if each is None else long_duration(each) for each in seconds]
        cells.append((row.data, f"{row.law.num_samples:,}", *times, row.verdict))
    table(("data", "n", *(each.hardware.name for each in rows[0].plans), "verdict"), cells)


def print_last_layers(rows: list[Outlook]) -> None:
    """What the law says of the networks that people train on such data."""
    cells = []
    for row in rows:
        law, layer = row.of_last_layer, row.last_layer
        if law is None or layer is None:
            continue
        weights = f"{layer.num_features:,} x {layer.num_outputs:,} = {layer.num_parameters:,}"
        most = plural(law.largest_samples, "sample")
        needed = number(row.law.num_parameters)
        cells.append((row.data, f"{row.law.num_samples:,}", needed, layer.network, weights, most, law.verdict))
    table(("data", "n", "parameters needed", "network", "its last layer", "determines at most", "the law says"), cells)
