"""`exhume law --cost`: what an attack would take, as a page for people or one JSON object."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from exhume.cli.options import whole
from exhume.cli.render import show
from exhume.errors import InputError
from exhume.features.gaussian import parse_bytes
from exhume.planning import Cost, Hardware, Outlook, Plan, Seconds, outlook, plan
from exhume.planning.cost import HALF, KEPT, REGENERATED, TOO_LARGE
from exhume.planning.passes import in_a_basis, law_of_passes
from exhume.planning.words import duration, number, rate, size

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

_DEFAULT_BUDGET = 4  # GB for V, unless --memory-budget is given
_VERBS = {
    KEPT: "V is kept",
    HALF: "V is kept in half precision for the early passes, and for the others as much of it as fits",
    REGENERATED: "V does not fit and is drawn anew in every pass",
}

_IN_PARTS = "V does not fit: as much as does is kept, and the rest drawn anew in every pass"


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

    def hardware(self) -> Hardware | None:
        """What was stated; None if nothing was, or the memory alone: then this machine is measured."""
        if self.given in ([], ["--memory"]):
            return None
        missing = [f"--{name}" for name in ("flops", "bandwidth", "memory") if getattr(self, name) is None]
        processes = 1 if self.processes is None else whole(self.processes)
        if processes > 1 and self.network is None:
            missing.append("--network")
        if missing:
            raise InputError(
                f"{', '.join(self.given)} without {', '.join(missing)}; valid: --flops, --bandwidth and --memory "
                "together (with --processes above 1 also --network), or none of them to measure this machine"
            )
        hardware = Hardware(
            "the stated hardware" if processes == 1 else f"the stated hardware ({processes:,} processes)",
            flops=_positive("--flops", self.flops),
            bandwidth=_positive("--bandwidth", self.bandwidth),
            memory=self.bytes_of_memory or 0,
            processes=processes,
            network=None if self.network is None else _positive("--network", self.network),
        )
        return hardware if self.drawing is None else replace(hardware, drawing=_positive("--drawing", self.drawing))

    @property
    def bytes_of_memory(self) -> int | None:
        """--memory in bytes."""
        return None if self.memory is None else parse_bytes(self.memory)


def cost_of(
    parameters: int, dim: int, samples: int, outputs: int, activation: str, stated: Stated, as_json: bool
) -> None:
    """Prints the plan of one attack."""
    planned = plan(parameters, dim, samples, outputs, stated.hardware(), activation)
    if stated.given == ["--memory"]:
        hardware = replace(planned.hardware, memory=stated.bytes_of_memory or 0)
        planned = plan(parameters, dim, samples, outputs, hardware, activation)
    show(page_of(planned), planned.to_json(), as_json)


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


def page_of(planned: Plan) -> str:
    """The verdict of the law, how long, how much memory, and why."""
    cost, hardware = planned.cost, planned.hardware
    lines = [planned.law.sentence, planned.sentence]
    if cost is None:
        return "\n".join(lines)
    lines += ["", *_work(planned, cost), "", *_memory(planned, cost)]
    if cost.per_pass is not None:
        lines += ["", *_time(cost.per_pass)]
    return "\n".join([*lines, "", *_where(hardware, planned.law.num_samples)])


def _where(hardware: Hardware, samples: int) -> list[str]:
    """What it would run on."""
    network = f", {size(hardware.network)}/s over the network" if hardware.network else ""
    return [
        f"  hardware  {hardware.name}: {rate(hardware.speed(samples), 'flop/s')} in products of {samples:,} rows,",
        f"            {size(hardware.bandwidth)}/s from memory, "
        f"{hardware.drawing / 1e6:,.0f} million numbers of V drawn a second{network};",
        f"            {size(hardware.memory)} of memory a process.",
    ]


def _work(planned: Plan, cost: Cost) -> list[str]:
    """What is done: coordinates, passes, operations."""
    fitted = law_of_passes(planned.law.num_outputs)
    part = "all" if cost.coordinates == cost.width else f"{cost.coordinates:,} of the"
    lines = [
        f"  work      {cost.passes:,.0f} passes over {part} {cost.width:,} coordinates, {cost.flops:.2g} operations."
    ]
    if cost.coordinates < cost.width:
        lines.append(
            f"            The attack needs no more of them, and will count {cost.full_passes:,.0f} full passes."
        )
    if cost.extrapolated:
        lines.append(
            "            The passes are extrapolated: measured were "
            f"n = {fitted.samples[0]:,} to {fitted.samples[1]:,}, d = {fitted.dims[0]:,} to {fitted.dims[1]:,} and "
            f"p/dn = {fitted.ratios[0]:g} to {fitted.ratios[1]:g}."
        )
    return lines


def _memory(planned: Plan, cost: Cost) -> list[str]:
    """How much memory, and what becomes of V."""
    sizes = (
        f"with V kept {size(cost.memory_kept)}, in half precision {size(cost.memory_half)}, "
        f"drawn anew {size(cost.memory_regenerated)}"
    )
    lines = [f"  memory    {size(cost.memory)} a process, of {size(planned.hardware.memory)}: {sizes}."]
    if cost.regime == TOO_LARGE:
        return lines
    in_parts = cost.regime != KEPT and in_a_basis(planned.law.input_dim, planned.law.num_samples)
    verb = _IN_PARTS if in_parts and cost.regime == REGENERATED else _VERBS[cost.regime]
    lines.append(f"            {verb}: {size(cost.matrix_bytes)} in float32 in all.")
    budget = math.ceil(cost.matrix_bytes / planned.hardware.processes / 1e9)
    if cost.regime != KEPT:
        budget = int((planned.hardware.memory - cost.memory_regenerated) / 1e9) if in_parts else 0
    if budget > _DEFAULT_BUDGET:
        lines.append(f"            Tell the attack so: --memory-budget {budget}GB ({_DEFAULT_BUDGET}GB unless given).")
    return lines


def _time(parts: Seconds) -> list[str]:
    """How long a pass takes, and on what."""
    named = {
        "products": parts.products,
        "reading V": parts.reading,
        "drawing V": parts.drawing,
        "converting V": parts.converting,
        "features and slopes": parts.tables,
        "network": parts.network,
        "calls": parts.overhead,
    }
    spent = ", ".join(f"{name} {value:.2g} s" for name, value in named.items() if value)
    lines = [f"  time      {parts.of_a_pass:.2g} s a pass: {spent}.", "            Products and reading V overlap."]
    if parts.first_drawing >= 1:
        lines.append(f"            Drawing V for the first time takes {duration(parts.first_drawing)}.")
    return lines


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
                f"{said.largest_samples:,} sample{'' if said.largest_samples == 1 else 's'}",
                said.verdict,
            ]
        )
    return _aligned(columns, cells)


def _aligned(columns: list[str], rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (columns, *rows)]
    return "\n".join(line.rstrip() for line in lines)


def _positive(option: str, text: str | None) -> float:
    """The number given for an option."""
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise InputError(f"{option} is {text!r}; valid: a finite number above 0, for instance 20e12")
    return value
