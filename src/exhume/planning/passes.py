"""What the exact attack does, in numbers: how many coordinates it reads, in how many passes, keeping how much.

Everything that planning knows of the attack stands here and nowhere else. The passes are a power law fitted to the
measurements below whenever it is asked for: replacing a measurement is all that a faster attack needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

# Coordinates that the attack reads of a wider model with one output, in equations per unknown: where it searches in a
# small basis (inputs per sample, and inputs, at least), and elsewhere. Small matrices V are read whole, as are those
# that are not so many times as wide as what would be read.
IN_A_BASIS, BY_SUBSETS = 3.0, 5.0
_DIMS_PER_SAMPLE, _DIMS, _SMALL, _WORTH_IT = 10, 256, 2**20, 1.3
# Reads of V in a pass: a conjugate-gradient step is two passes, V D and V^T C, and one read where V is drawn anew;
# passes inside a basis read none of it. Elsewhere, and in a basis.
READS_PER_PASS, READS_PER_PASS_IN_A_BASIS = 1.0, 0.6
# Passes of a Gauss-Newton step: conjugate gradients, the gradient and the new point. Each step makes Phi Phi^T anew.
PASSES_PER_STEP = 15.0
# Share of the passes that may read V in half precision where the attack searches in a basis; others need float32.
HALF_PRECISION_SHARE = 0.4
# Tables of rows x coordinates that are held at once: features and slopes of two points, and one product; and the
# basis's own features, so many for every sample.
TABLES, TABLES_OF_A_BASIS = 5.0, 3.3
# Reads and writes of such tables in a pass, activations included; with the next, fitted to seconds of small attacks.
TABLE_ACCESSES = 10
# Rows at most, for each sample: rounds add an eighth.
ROWS_PER_SAMPLE = 1.125
# Vectors of rows x d that the solver holds: rows, gradient, directions and their images.
VECTORS = 10
# Matrices of rows x rows in float64: Phi Phi^T, its factor and the preconditioner.
GRAMS = 4
# Bytes of the process itself: Python and torch.
PROCESS_BYTES = 500 * 10**6
# Seconds of a pass that no size shrinks: calls of small operations.
PASS_OVERHEAD = 6e-4


@dataclass(frozen=True)
class Measured:
    """Passes of one attack that was run.

    Attributes:
        input_dim, num_samples: d and n.
        ratio: equations per unknown that were read, p/(dn) for one output.
        passes: over the coordinates that were read.
        source: the command that prints it.
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
    # Of 4dn three quarters were read: full passes times 4/3.
    Measured(768, 6, 3, 275, "python -m benches scaling"),
    Measured(768, 40, 3, 289, "python -m benches scaling"),
    Measured(3072, 10, 3.25, 192, "python -m benches laptop"),
    Measured(3072, 30, 3, 192, "python -m benches laptop"),
    Measured(3072, 100, 3, 288, "python -m benches figure1"),
    Measured(12_288, 20, 3, 234, "python -m benches laptop"),
)
# Several outputs: the direct search (exhume.attacks.direct), here on trained two-layer networks with ten outputs.
SEVERAL_OUTPUTS = (
    Measured(3072, 10, 4, 825, "python -m benches networks"),
    Measured(3072, 100, 4, 1165, "exhume attack runs/fig7 (docs/results.md)"),
)


@dataclass(frozen=True)
class PowerLaw:
    """passes = factor n^of_samples d^of_dim (p/dn)^of_ratio.

    Attributes:
        misfit: largest factor between a measurement and the law.
        samples, dims, ratios: smallest and largest that were measured.
        count: of the measurements.
    """

    factor: float
    of_samples: float
    of_dim: float
    of_ratio: float
    misfit: float
    samples: tuple[int, int]
    dims: tuple[int, int]
    ratios: tuple[float, float]
    count: int

    def __call__(self, input_dim: int, num_samples: int, ratio: float) -> float:
        """Passes over the coordinates read."""
        return self.factor * num_samples**self.of_samples * input_dim**self.of_dim * ratio**self.of_ratio

    def covers(self, input_dim: int, num_samples: int, ratio: float) -> bool:
        """Whether the sizes lie between those measured."""
        within = ((num_samples, self.samples), (input_dim, self.dims), (round(ratio, 2), self.ratios))
        return all(low <= value <= high for value, (low, high) in within)

    @property
    def formula(self) -> str:
        """The law in a line."""
        exponents = f"n^{self.of_samples:.2f} d^{self.of_dim:.2f} (p/dn)^{self.of_ratio:.2f}"
        return f"{self.factor:.3g} {exponents}"


def fit(measurements: Sequence[Measured]) -> PowerLaw:
    """Least squares in logarithms; an axis along which nothing was varied gets the exponent 0."""
    axes = np.log([[each.num_samples, each.input_dim, each.ratio] for each in measurements])
    passes = np.log([each.passes for each in measurements])
    middle, mean = axes.mean(axis=0), passes.mean()
    exponents = np.linalg.lstsq(axes - middle, passes - mean, rcond=None)[0]  # smallest solution: 0 where all are alike
    misfits = np.abs((axes - middle) @ exponents + mean - passes)
    samples = [each.num_samples for each in measurements]
    dims = [each.input_dim for each in measurements]
    ratios = [each.ratio for each in measurements]
    of_samples, of_dim, of_ratio = map(float, exponents)
    return PowerLaw(
        factor=math.exp(mean - middle @ exponents),
        of_samples=of_samples,
        of_dim=of_dim,
        of_ratio=of_ratio,
        misfit=math.exp(misfits.max()),
        samples=(min(samples), max(samples)),
        dims=(min(dims), max(dims)),
        ratios=(min(ratios), max(ratios)),
        count=len(measurements),
    )


@cache
def law_of_passes(num_outputs: int) -> PowerLaw:
    """The fitted law of the search that the attack begins with: another one for several outputs."""
    return fit(ONE_OUTPUT if num_outputs == 1 else SEVERAL_OUTPUTS)


@dataclass(frozen=True)
class Attacked:
    """What the attack's choices depend on.

    Attributes:
        input_dim, num_samples, num_outputs: d, n and k.
        norms_open: whether the activation shows norms, which are unknowns then.
    """

    input_dim: int
    num_samples: int
    num_outputs: int = 1
    norms_open: bool = False

    @property
    def in_a_basis(self) -> bool:
        """Whether the search is in a small basis."""
        few = self.input_dim >= max(_DIMS, _DIMS_PER_SAMPLE * self.num_samples)
        return few and self.num_outputs == 1 and not self.norms_open

    @property
    def reads_per_pass(self) -> float:
        """How often V is read in a pass, on average."""
        return READS_PER_PASS_IN_A_BASIS if self.in_a_basis else READS_PER_PASS

    @property
    def half_precision_share(self) -> float:
        """The share of the passes that may read V in half precision."""
        return HALF_PRECISION_SHARE if self.in_a_basis else 0.0

    @property
    def tables(self) -> float:
        """Tables of rows x coordinates that are held at once."""
        return TABLES + (TABLES_OF_A_BASIS if self.in_a_basis else 0)

    def coordinates_read(self, width: int, unknowns: int) -> int:
        """How many of the h coordinates are read; of several outputs all are."""
        read = math.ceil((IN_A_BASIS if self.in_a_basis else BY_SUBSETS) * unknowns)
        in_part = self.num_outputs == 1 and width * self.input_dim > _SMALL and width > _WORTH_IT * read
        return read if in_part else width
