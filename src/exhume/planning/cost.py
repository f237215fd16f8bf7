"""Memory and time of the exact attack on given sizes and hardware.

A pass applies V (h, d) to n rows: 2 h d n operations, of the h coordinates that are read. Each process holds its share
of the coordinates:

    seconds of a pass = max(operations / flops, bytes of V / bandwidth) + drawing + converting + tables + network

V is kept in float32 if it fits in memory. If it does not, the growing-basis search keeps as many rows as fit (in
float16 while the residual is above 1e-2) and regenerates the others on every pass; the other searches regenerate all of
V. Regenerating costs more than multiplying. Tables are the features and slopes (n, h), read from memory. The network
carries one all-reduce of n x d numbers for every two passes, and Phi Phi^T once a step.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from exhume import activations
from exhume.activations import Activation
from exhume.features.matrix import BLOCK_ROWS, CHUNK_BYTES
from exhume.law import GREY_ZONE, RECONSTRUCTIBLE, Forecast, forecast
from exhume.planning import passes as known
from exhume.planning.hardware import Hardware
from exhume.support.text import estimated_duration, size

KEPT, HALF, REGENERATED, TOO_LARGE = "kept", "half precision", "regenerated", "too large"


@dataclass(frozen=True)
class Seconds:
    """What the time of an average pass is spent on, and the time of drawing V for the first time."""

    products: float
    reading: float
    drawing: float
    converting: float
    tables: float
    network: float
    overhead: float
    first_drawing: float

    @property
    def of_a_pass(self) -> float:
        """Products and the reading of V overlap; the rest runs one after the other."""
        rest = self.drawing + self.converting + self.tables + self.network + self.overhead
        return max(self.products, self.reading) + rest


@dataclass(frozen=True)
class Cost:
    """What an attack takes.

    Attributes:
        coordinates: rows of V that are read.
        width: h, all rows of V.
        passes: over the coordinates read.
        full_passes: the same in units of all h coordinates, as results report them.
        extrapolated: whether the sizes are beyond those that passes were measured for.
        flops: operations in total.
        matrix_bytes: bytes of V in float32, of the coordinates read, over all processes.
        memory_kept, memory_half, memory_regenerated: bytes of one process if V is kept in float32, kept in half
            precision, or regenerated on every pass.
        regime: "kept", "half precision", "regenerated", or "too large" if not even that fits.
        keeps_parts: whether V does not fit and the attack keeps as much of it as fits.
        budget: bytes of V that a process keeps; 0 if all of it is regenerated.
        per_pass: seconds of one pass, by what they are spent on; None if it is too large.
        seconds: in total; None if it is too large.
    """

    coordinates: int
    width: int
    passes: float
    full_passes: float
    extrapolated: bool
    flops: float
    matrix_bytes: int
    memory_kept: int
    memory_half: int
    memory_regenerated: int
    regime: str
    keeps_parts: bool
    budget: int
    per_pass: Seconds | None
    seconds: float | None

    @property
    def memory(self) -> int:
        """Bytes of one process in the chosen regime; the smallest possible if none fits."""
        if self.regime == KEPT:
            return self.memory_kept
        return self.memory_regenerated + (self.budget if self.keeps_parts else 0)


@dataclass(frozen=True)
class Plan:
    """The law's forecast, and what the attack would cost; no cost where the law rules it out.

    Attributes:
        law: the forecast.
        hardware: what it would run on.
        cost: None if the parameters do not determine the samples.

    Examples:
        >>> from exhume.planning import GPU, plan
        >>> planned = plan(921_600, input_dim=3072, num_samples=100, hardware=GPU)
        >>> planned.cost.regime
        'kept'
        >>> plan(60, input_dim=30, num_samples=20, hardware=GPU).cost is None
        True
    """

    law: Forecast
    hardware: Hardware
    cost: Cost | None

    @property
    def sentence(self) -> str:
        """How long it takes on which hardware, or why it is impossible."""
        where, cost = self.hardware.name, self.cost
        if cost is None:
            return "Out of reach on any hardware: the parameters do not determine the samples."
        if cost.seconds is None:
            needed, available = size(cost.memory), size(self.hardware.memory)
            return f"Does not fit {where}: a process needs {needed} even if V is regenerated, and has {available}."
        return f"It takes {estimated_duration(cost.seconds)} on {where}."

    def to_json(self) -> dict[str, Any]:
        """Sizes, cost and hardware, as plain JSON values."""
        cost = None if self.cost is None else {**asdict(self.cost), "memory": self.cost.memory}
        return {"sentence": self.sentence, "law": self.law.to_json(), "cost": cost, "hardware": self.hardware.to_json()}


def plan(
    num_parameters: int,
    input_dim: int,
    num_samples: int,
    num_outputs: int = 1,
    hardware: Hardware | None = None,
    activation: str | Activation = "relu",
) -> Plan:
    """Predicts what it would take to reconstruct n samples of dimension d from p parameters by the exact attack.

    Args:
        num_parameters: p, all weights of the layer.
        input_dim: d.
        num_samples: n.
        num_outputs: k.
        hardware: what it would run on; by default this machine, measured for these sizes in a few seconds.
        activation: decides whether norms are among the unknowns; passes were measured with relu.
    """
    law = forecast(num_parameters, input_dim, num_samples, num_outputs, activation)
    norms_open = activations.get(activation).homogeneity is None
    attacked = known.Attacked(law.input_dim, law.num_samples, law.num_outputs, norms_open)
    read = attacked.coordinates_read(law.num_parameters // law.num_outputs, law.unknowns)
    if hardware is None:
        hardware = Hardware.probe((law.num_samples,), law.input_dim, read)
    allowed = law.verdict in (GREY_ZONE, RECONSTRUCTIBLE)
    return Plan(law, hardware, _cost(law, attacked, read, hardware) if allowed else None)


def _cost(law: Forecast, attacked: known.Attacked, read: int, hardware: Hardware) -> Cost:
    """The cost of an attack that the law allows."""
    dim, samples, width = law.input_dim, law.num_samples, law.num_parameters // law.num_outputs
    ratio = read * law.num_outputs / law.unknowns
    fitted = known.law_of_passes(law.num_outputs)
    passes = fitted(dim, samples, ratio)
    share = math.ceil(read / hardware.processes)
    # Unread coordinates are read once, at the end. The features of all samples are in memory then, V chunk by chunk.
    unread = width - read
    check_bytes = 4 * samples * math.ceil(width / hardware.processes) if unread else 0
    regenerated = max(_memory_without_v(attacked, share), known.PROCESS_BYTES + check_bytes)
    memory = {KEPT: regenerated + 4 * share * dim, HALF: regenerated + 2 * share * dim, REGENERATED: regenerated}
    regimes = [KEPT, *([HALF] if attacked.half_precision_share else []), REGENERATED]
    regime = next((each for each in regimes if memory[each] <= hardware.memory), TOO_LARGE)
    keeps_parts = regime in (HALF, REGENERATED) and attacked.in_a_basis
    budget = 4.0 * share * dim if regime == KEPT else (hardware.memory - regenerated) * keeps_parts
    per_pass = None if regime == TOO_LARGE else _seconds(attacked, share, budget, regime == KEPT, hardware)
    seconds = None
    if per_pass is not None:
        once = per_pass.of_a_pass * unread / read + float(unread) * dim / hardware.processes / hardware.drawing
        seconds = passes * per_pass.of_a_pass + per_pass.first_drawing + once
    return Cost(
        coordinates=read,
        width=width,
        passes=passes,
        full_passes=passes * read / width + unread / width,
        extrapolated=not fitted.covers(dim, samples, ratio),
        flops=passes * _operations(dim, samples, read),
        matrix_bytes=4 * read * dim,
        memory_kept=memory[KEPT],
        memory_half=memory[HALF],
        memory_regenerated=regenerated,
        regime=regime,
        keeps_parts=keeps_parts,
        budget=max(0, int(budget)),
        per_pass=per_pass,
        seconds=seconds,
    )


def _memory_without_v(attacked: known.Attacked, share: int) -> int:
    """Bytes of a process besides V: tables, vectors, Gram matrices, and the chunk that is being drawn."""
    dim, rows = attacked.input_dim, math.ceil(known.ROWS_PER_SAMPLE * attacked.num_samples)
    tables = math.ceil(attacked.tables * 4 * rows * share)
    small = known.VECTORS * 4 * rows * dim + known.GRAMS * 8 * rows**2
    chunk = 2 * min(max(CHUNK_BYTES, 4 * BLOCK_ROWS * dim), 4 * max(share, BLOCK_ROWS) * dim)
    return known.PROCESS_BYTES + tables + small + chunk


def _operations(dim: int, samples: int, coordinates: int) -> float:
    """Operations of one pass, with its share of Phi Phi^T."""
    return 2.0 * coordinates * samples * (dim + samples / known.PASSES_PER_STEP)


def _seconds(attacked: known.Attacked, share: int, budget: float, kept: bool, hardware: Hardware) -> Seconds:
    """The time of a pass on each process's share of the coordinates, of whose V `budget` bytes are kept."""
    dim, samples = attacked.input_dim, attacked.num_samples
    entries = float(share) * dim
    halves = 0.0 if kept else attacked.half_precision_share
    single, half = (min(1.0, budget / (each * entries)) for each in (4, 2))
    regenerated = halves * (1 - half) + (1 - halves) * (1 - single)
    read = attacked.reads_per_pass * entries
    others = hardware.processes - 1
    reduced = 4 * samples * dim / 2 + 8 * samples**2 / known.PASSES_PER_STEP  # bytes, in a pass
    return Seconds(
        products=_operations(dim, samples, share) / hardware.speed(samples),
        reading=read * (4 - 2 * halves * half) / hardware.bandwidth,
        drawing=regenerated * read / hardware.drawing,
        converting=0.0 if hardware.conversion is None else halves * half * read / hardware.conversion,
        tables=known.TABLE_ACCESSES * 4.0 * samples * share / hardware.bandwidth,
        network=2 * others / hardware.processes * reduced / hardware.network if hardware.network else 0.0,
        overhead=known.PASS_OVERHEAD,
        first_drawing=(single + (half if halves else 0.0)) * entries / hardware.drawing,
    )
