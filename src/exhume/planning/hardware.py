"""What an attack would run on: this machine, measured by a probe, or a cluster in stated numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from exhume.errors import InputError
from exhume.features.gaussian import parse_bytes
from exhume.planning import probing

# Numbers of V that one process draws in a second where nothing is stated: a host of some 25 cores. exhume draws V on
# the CPU, on whatever device it computes.
DRAWING = 1e9


@dataclass(frozen=True)
class Hardware:
    """Speeds and sizes of one process, and how many of them there are.

    Attributes:
        name: in words.
        flops: float32 operations a second in matrix products.
        bandwidth: bytes a second that are read from memory.
        memory: bytes of a process; a size such as "80GB" is understood.
        processes: that share the coordinates.
        network: bytes a second that a process sends to the others; needed for more than one.
        drawing: numbers of V drawn in a second.
        conversion: numbers a second from half precision to float32; None: as fast as they are read.
        flops_by_rows: (rows, flops) of products with fewer rows, as measured, in ascending order.
        cores: of this machine, where it was measured; torch may have been told to use fewer.

    Examples:
        >>> from exhume.planning import Hardware
        >>> Hardware("a workstation", flops=2e12, bandwidth=2e11, memory="64GB").memory
        64000000000
    """

    name: str
    flops: float
    bandwidth: float
    memory: int
    processes: int = 1
    network: float | None = None
    drawing: float = DRAWING
    conversion: float | None = None
    flops_by_rows: tuple[tuple[int, float], ...] = ()
    cores: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", parse_bytes(self.memory))
        for field in ("flops", "bandwidth", "memory", "drawing", "network", "conversion"):
            value = getattr(self, field)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise InputError(f"{field} is {value!r}; valid: a finite number above 0")
        if self.processes < 1 or self.processes != int(self.processes):
            raise InputError(f"processes is {self.processes!r}; valid: a whole number of at least 1")
        if self.processes > 1 and self.network is None:
            raise InputError(f"processes is {self.processes} and no network is given; valid: its bytes a second")

    @classmethod
    def probe(
        cls, rows: Sequence[int] = (10, 100, probing.MOST_ROWS), dim: int = 3072, coordinates: int | None = None
    ) -> Hardware:
        """Measures this machine in a few seconds: products, memory and drawing V, with the threads torch is set to.

        Args:
            rows: samples, for which the products are measured; speeds of other numbers are interpolated.
            dim: d.
            coordinates: rows of V that would be read, if they are few.
        """
        measured = probing.measure(rows, dim, coordinates)
        return cls(
            f"this machine ({probing.in_words(measured)})",
            flops=measured.flops[-1][1],
            bandwidth=measured.bandwidth,
            memory=probing.available_memory(),
            drawing=measured.drawing,
            conversion=measured.conversion,
            flops_by_rows=measured.flops,
            cores=measured.cores,
        )

    def speed(self, rows: int) -> float:
        """Operations a second in a product of so many rows; between those measured, along a power law."""
        known = self.flops_by_rows
        if not known or rows >= known[-1][0]:
            return self.flops
        if rows <= known[0][0]:
            return known[0][1]
        above = next(index for index, (count, _) in enumerate(known) if count >= rows)
        (low, slow), (high, fast) = known[above - 1], known[above]
        place = math.log(rows / low) / math.log(high / low)
        return float(slow * (fast / slow) ** place)

    def to_json(self) -> dict[str, Any]:
        """Every field, as plain JSON values."""
        return {**asdict(self), "flops_by_rows": [list(pair) for pair in self.flops_by_rows]}


# NVIDIA's H100 SXM at 70 % of its peaks (data sheet: 67 Tflop/s in float32, 3.35 TB/s, 80 GB). TF32 is faster, but its
# ten bits end far above the residual at which samples are found.
GPU = Hardware("one GPU (H100)", flops=47e12, bandwidth=2.3e12, memory=80 * 10**9)
# One adapter of 400 Gb/s for each GPU, as in a DGX H100 (user guide, network modules), half of it sustained.
THOUSAND_GPUS = Hardware(
    "a thousand GPUs", flops=47e12, bandwidth=2.3e12, memory=80 * 10**9, processes=1000, network=25e9
)
