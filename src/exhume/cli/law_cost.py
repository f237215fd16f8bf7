"""`exhume law --cost`: what an attack would take, as a page for people or one JSON object."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from exhume.cli.law_cost_page import counted, page_of
from exhume.cli.options import whole
from exhume.cli.render import show
from exhume.errors import InputError
from exhume.features.gaussian import parse_bytes
from exhume.planning import Hardware, Outlook, outlook, plan
from exhume.planning.passes import law_of_passes
from exhume.planning.words import duration, number, size

Flops = Annotated[
    str | None, typer.Option(help="With --cost: float32 operations a second of one process, for instance 20e12.")
]
Bandwidth = Annotated[str | None, typer.Option(help="With --cost: bytes a second that one process reads from memory.")]
MemoryOf = Annotated[str | None, typer.Option(help="With --cost: memory of one process, for instance 80GB.")]
Processes = Annotated[str | None, typer.Option(help="With --cost: processes that share the work; 1 unless given.")]
Network = Annotated[str | None, typer.Option(help="With --cost: bytes a second from one process to the others.")]
Drawing = Annotated[
    str | None, typer.Option(help="With --cost: numbers of V that one process draws in a second; 1e9 unless given.")
]

_LEAST_MEMORY = 10**6


@dataclass(frozen=True)
class Stated:
    """Hardware as it was written on the command line; an option that was not given is None."""

    flops: str | None
    bandwidth: str | None
    memory: str | None
    processes: str | None
    network: str | None
    drawing: str | None

    @property
    def given(self) -> list[str]:
        """The options that were given."""
        return [f"--{name}" for name, value in vars(self).items() if value is not None]

    @property
    def is_measured(self) -> bool:
        """Whether nothing was stated, or the memory alone."""
        return self.given in ([], ["--memory"])

    @property
    def assumes_drawing(self) -> bool:
        """Whether hardware was stated, but not how fast it draws V."""
        return not self.is_measured and self.drawing is None

    def hardware(self) -> Hardware | None:
        """What was stated; None if nothing was, or the memory alone: then this machine is measured."""
        memory = self.bytes_of_memory  # a mistake is told before anything is measured
        if self.is_measured:
            return None
        missing = [f"--{name}" for name in ("flops", "bandwidth", "memory") if getattr(self, name) is None]
        processes = 1 if self.processes is None else whole(self.processes, "--processes", least=1)
        if processes > 1 and self.network is None:
            missing.append("--network")
        if missing:
            raise InputError(
                f"{', '.join(self.given)} without {', '.join(missing)}; valid: --flops, --bandwidth and --memory "
                "together (with --processes above 1 also --network), or none of them to measure this machine"
            )
        hardware = Hardware(
            "the stated hardware" if processes == 1 else f"the stated hardware ({processes:,} processes)",
            flops=_positive("--flops", self.flops, "20e12"),
            bandwidth=_positive("--bandwidth", self.bandwidth, "1.5e12"),
            memory=memory or 0,
            processes=processes,
            network=None if self.network is None else _positive("--network", self.network, "25e9"),
        )
        if self.drawing is None:
            return hardware
        return replace(hardware, drawing=_positive("--drawing", self.drawing, "1e9"))

    @property
    def bytes_of_memory(self) -> int | None:
        """--memory in bytes."""
        return None if self.memory is None else _memory(self.memory)


def cost_of(
    parameters: int, dim: int, samples: int, outputs: int, activation: str, stated: Stated, as_json: bool
) -> None:
    """Prints the plan of one attack."""
    planned = plan(parameters, dim, samples, outputs, stated.hardware(), activation)
    if stated.given == ["--memory"]:
        hardware = replace(planned.hardware, memory=stated.bytes_of_memory or 0)
        planned = plan(parameters, dim, samples, outputs, hardware, activation)
    show(page_of(planned, stated.assumes_drawing), planned.to_json(), as_json)


def cost_table(stated: Stated, as_json: bool) -> None:
    """Prints what known data sets would take."""
    hardware = stated.hardware() or Hardware.probe()
    if stated.given == ["--memory"]:
        hardware = replace(hardware, memory=stated.bytes_of_memory or 0)
    rows = outlook(hardware)
    fitted = law_of_passes(1)
    text = [
        "What an attack takes (one output; memory of a single process):",
        _needs(rows),
        f"passes = {fitted.formula}, fitted to {fitted.count} measurements and off by a factor of "
        f"{fitted.misfit:.2f} at most; ~ marks sizes beyond them.",
        "How long it takes:",
        _times(rows),
        "Whether the last layer of a network that people train determines the samples:",
        _reaches(rows),
    ]
    show("\n\n".join(text), {"passes": fitted.formula, "rows": [row.to_json() for row in rows]}, as_json)


def _needs(rows: list[Outlook]) -> str:
    """What every data set takes, whatever the hardware."""
    columns = ["data", "d", "n", "p = 3dn", "V", "memory, V kept", "V drawn anew", "passes", "operations"]
    cells = [
        [
            row.data,
            f"{row.law.input_dim:,}",
            f"{row.law.num_samples:,}",
            number(row.law.num_parameters),
            size(row.cost.matrix_bytes),
            size(row.cost.memory_kept),
            size(row.cost.memory_regenerated),
            f"{'~' if row.cost.extrapolated else ''}{number(row.cost.passes)}",
            f"{row.cost.flops:.1e}",
        ]
        for row in rows
    ]
    return _aligned(columns, cells)


def _times(rows: list[Outlook]) -> str:
    """How long it takes on each hardware, and a verdict."""
    columns = ["data", "n", *(each.hardware.name for each in rows[0].plans), "verdict"]
    cells = []
    for row in rows:
        took = [each.cost.seconds if each.cost else None for each in row.plans]
        times = ["does not fit" if each is None else duration(each) for each in took]
        cells.append([row.data, f"{row.law.num_samples:,}", *times, row.verdict])
    return _aligned(columns, cells)


def _reaches(rows: list[Outlook]) -> str:
    """What the law says of the networks that people train on such data."""
    columns = ["data", "n", "parameters needed", "network", "its last layer", "determines at most", "the law says"]
    cells = []
    for row in rows:
        said, layer = row.of_last_layer, row.last_layer
        if said is None or layer is None:
            continue
        cells.append(
            [
                row.data,
                f"{row.law.num_samples:,}",
                number(row.law.num_parameters),
                layer.network,
                f"{layer.num_features:,} x {layer.num_outputs:,} = {layer.num_parameters:,}",
                counted(said.largest_samples, "sample"),
                said.verdict,
            ]
        )
    return _aligned(columns, cells)


def _aligned(columns: list[str], rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (columns, *rows)]
    return "\n".join(line.rstrip() for line in lines)


def _positive(option: str, text: str | None, example: str) -> float:
    """The number given for an option."""
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise InputError(f"{option} is {text!r}; valid: a finite number above 0, for instance {example}")
    return value


def _memory(text: str) -> int:
    """The bytes given for --memory."""
    try:
        value = parse_bytes(text)
    except InputError as error:
        raise InputError(f"--memory {text!r} is not a size; write for instance '80GB' or '1.5TiB'") from error
    if value < _LEAST_MEMORY:
        bare = text.strip().isdigit() and value > 0
        meant = f"did you mean {value}GB?" if bare else "valid: at least 1MB, for instance 80GB"
        raise InputError(f"--memory is {value} bytes; {meant}")
    return value
