"""What the exact attack does, in numbers: how many coordinates it reads, in how many passes, with how many arrays.

The passes follow a power law that is fitted to the measurements below. When the attack becomes faster, only the
measurements need to be replaced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from exhume.attacks._base.tuning import DEFAULT_TUNING

# Reads of V per pass. A conjugate-gradient step is two passes, V D and V^T C, and one read where V is regenerated;
# passes inside a basis do not read V. The second number is the average of a search in a basis.
READS_PER_PASS, READS_PER_PASS_IN_A_BASIS = 1.0, 0.6
_BASIS, _SCHEDULE = DEFAULT_TUNING.basis, DEFAULT_TUNING.schedule
# Passes of a Gauss-Newton step: conjugate gradients, the gradient and the new point. Each step computes Phi Phi^T.
PASSES_PER_STEP = 15.0
# Share of the passes of a search in a basis that may read V in half precision; others need float32.
HALF_PRECISION_SHARE = 0.4
# Arrays of rows x coordinates that are in memory at once: features and slopes of two points, and one product. A search
# in a basis adds the features of the basis, this many for each sample.
TABLES, TABLES_OF_A_BASIS = 5.0, 3.3
# Reads and writes of such arrays per pass, with activations; fitted, like PASS_OVERHEAD, to seconds of small attacks.
TABLE_ACCESSES = 10
# Most rows for each sample: rounds of the search add an eighth.
ROWS_PER_SAMPLE = 1.125
# Arrays of rows x d that the solver holds: rows, gradient, directions and their images.
VECTORS = 10
# Matrices of rows x rows in float64: Phi Phi^T, its factor and the preconditioner.
GRAMS = 4
# Bytes of the process itself: Python and torch.
PROCESS_BYTES = 500 * 10**6
# Seconds of a pass that do not depend on the sizes: calls of small operations.
PASS_OVERHEAD = 6e-4


@dataclass(frozen=True)
class Measured:
    """Passes of one attack that was run.

    Attributes:
        input_dim, num_samples: d and n.
        ratio: equations read per unknown, p/(dn) for one output.
        passes: over the coordinates that were read.
        source: the command that prints them.
    """

    input_dim: int
    num_samples: int
    ratio: float
    passes: float
    source: str


# One output: the searches in a basis and with momentum on subsets of coordinates, medians of 1 to 10 seeds. Below 2dn
# passes grow faster than any power of p/dn.
ONE_OUTPUT = (
    Measured(30, 20, 2, 762, "python -m benches success_curve"),
    Measured(30, 20, 3, 433, "python -m benches success_curve"),
    Measured(30, 20, 5, 312, "python -m benches success_curve"),
    Measured(100, 20, 5, 193, "python -m benches passes"),
    Measured(100, 100, 2, 1020, "python -m benches sphere100"),
    Measured(100, 100, 2.5, 482, "python -m benches sphere100"),
    Measured(100, 100, 3, 359, "python -m benches sphere100"),
    Measured(200, 5, 4, 308, "python -m benches scaling"),
    Measured(200, 20, 4, 188, "python -m benches scaling"),
    Measured(200, 80, 4, 269, "python -m benches scaling"),
    # Three quarters of 4dn coordinates were read: 4/3 times the full passes.
    Measured(768, 6, 3, 275, "python -m benches scaling"),
    Measured(768, 40, 3, 289, "python -m benches scaling"),
    Measured(3072, 10, 3.25, 192, "python -m benches laptop"),
    Measured(3072, 30, 3, 192, "python -m benches laptop"),
    Measured(3072, 100, 3, 288, "python -m benches figure1"),
    Measured(12_288, 20, 3, 234, "python -m benches laptop"),
)
# Several outputs: the direct search (attacks/_search/direct.py), here on trained two-layer networks of ten outputs.
SEVERAL_OUTPUTS = (
    Measured(3072, 10, 4, 825, "python -m benches networks"),
    Measured(3072, 100, 4, 1165, "exhume attack runs/fig7 (docs/reference/results.md)"),
)


@dataclass(frozen=True)
class PowerLaw:
    """passes = factor n^of_samples d^of_dim (p/dn)^of_ratio.

    Attributes:
        misfit: largest factor between a measurement and the law.
        measurements: that it was fitted to.
    """

    factor: float
    of_samples: float
    of_dim: float
    of_ratio: float
    misfit: float
    measurements: Sequence[Measured]

    def __call__(self, input_dim: int, num_samples: int, ratio: float) -> float:
        """Passes over the coordinates read."""
        return self.factor * num_samples**self.of_samples * input_dim**self.of_dim * ratio**self.of_ratio

    def covers(self, input_dim: int, num_samples: int, ratio: float) -> bool:
        """Whether the sizes lie within those measured."""
        sizes = (num_samples, input_dim, round(ratio, 2))
        return all(low <= size <= high for size, (low, high) in zip(sizes, self.ranges, strict=True))

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """The smallest and the largest n, d and p/dn that were measured."""
        sizes = zip(*((each.num_samples, each.input_dim, each.ratio) for each in self.measurements), strict=True)
        return [(min(each), max(each)) for each in sizes]

    @property
    def formula(self) -> str:
        """The law as text."""
        exponents = f"n^{self.of_samples:.2f} d^{self.of_dim:.2f} (p/dn)^{self.of_ratio:.2f}"
        return f"{self.factor:.3g} {exponents}"


def fit(measurements: Sequence[Measured]) -> PowerLaw:
    """Fits by least squares in logarithms; the exponent of a size that was not varied is 0."""
    axes = np.log([[each.num_samples, each.input_dim, each.ratio] for each in measurements])
    passes = np.log([each.passes for each in measurements])
    middle, mean = axes.mean(axis=0), passes.mean()
    exponents = np.linalg.lstsq(axes - middle, passes - mean, rcond=None)[0]  # the minimum-norm solution
    misfits = np.abs((axes - middle) @ exponents + mean - passes)
    factor, misfit = math.exp(mean - middle @ exponents), math.exp(misfits.max())
    of_samples, of_dim, of_ratio = map(float, exponents)
    return PowerLaw(factor, of_samples, of_dim, of_ratio, misfit, measurements)


@cache
def law_of_passes(num_outputs: int) -> PowerLaw:
    """The fitted law of the search that the attack starts with, which is another one for several outputs."""
    return fit(ONE_OUTPUT if num_outputs == 1 else SEVERAL_OUTPUTS)


@dataclass(frozen=True)
class Attacked:
    """The sizes that decide which search the attack runs.

    Attributes:
        input_dim, num_samples, num_outputs: d, n and k.
        norms_open: whether the norms of the samples are unknowns.
    """

    input_dim: int
    num_samples: int
    num_outputs: int = 1
    norms_open: bool = False

    @property
    def in_a_basis(self) -> bool:
        """Whether the attack searches in a small basis."""
        few = self.input_dim >= max(_BASIS.least_dims, _BASIS.dims_per_sample * self.num_samples)
        return few and self.num_outputs == 1 and not self.norms_open

    @property
    def reads_per_pass(self) -> float:
        """Reads of V per pass, on average."""
        return READS_PER_PASS_IN_A_BASIS if self.in_a_basis else READS_PER_PASS

    @property
    def half_precision_share(self) -> float:
        """The share of the passes that may read V in half precision."""
        return HALF_PRECISION_SHARE if self.in_a_basis else 0.0

    @property
    def tables(self) -> float:
        """Arrays of rows x coordinates that are in memory at once."""
        return TABLES + (TABLES_OF_A_BASIS if self.in_a_basis else 0)

    def coordinates_read(self, width: int, unknowns: int) -> int:
        """How many of the h coordinates are read; all of them if there are several outputs."""
        read = math.ceil((_SCHEDULE.in_basis if self.in_a_basis else _SCHEDULE.by_subsets) * unknowns)
        large = width * self.input_dim > _SCHEDULE.small_matrix and width > _SCHEDULE.least_saving * read
        return read if large and self.num_outputs == 1 else width
