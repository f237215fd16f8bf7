"""What the checks of the theory share: the result of a check, samples, features, kernels and an activation.

No built-in activation meets Assumption 2 literally (relu+tanh has mu_0, mu_2 and a jump of the slope), so this module
defines one that does, `WAVES`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from exhume import activations
from exhume.activations import Activation
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.scoring.matching import on_sphere
from exhume.support.randomness import generator_for, seed_for

Cell = str | int | float | bool | None
Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Check:
    """One statement of the theory, and its measurements.

    Attributes:
        name: a few words.
        statement: what should be seen.
        columns: headings of the table.
        rows: the table.
        passed: whether the statement holds here.
        tolerance: how far the fitted exponent may be from the predicted one; with no exponent predicted, how large
            a number may be that should be zero.
        fitted: exponent by least squares in log-log; None if the statement has none, or none can be fitted.
        predicted: the exponent that the theory gives; None if the statement has none.
    """

    name: str
    statement: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    passed: bool
    tolerance: float
    fitted: float | None = None
    predicted: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Every field as plain JSON values."""
        return {**asdict(self), "columns": list(self.columns), "rows": [list(row) for row in self.rows]}


def fit_exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The b of values = c sizes^b, by least squares of logarithms; None if there are fewer than two or not all > 0."""
    if len(sizes) < 2 or not all(math.isfinite(value) and value > 0 for value in (*sizes, *values)):
        return None
    slope, _ = np.polyfit(np.log(sizes), np.log(values), 1)
    return float(slope)


@dataclass(frozen=True)
class PowerLaw:
    """A statement that values grow as a power of sizes.

    Attributes:
        sizes, values: as measured.
        exponent: as predicted.
        tolerance: how far the fitted exponent may be from it.
    """

    sizes: Sequence[float]
    values: Sequence[float]
    exponent: float
    tolerance: float

    def check(
        self, name: str, statement: str, columns: tuple[str, ...], rows: Sequence[Row], *, also: bool = True
    ) -> Check:
        """A check that passes if the fitted exponent is near the predicted one, and `also` is true."""
        fitted = fit_exponent(self.sizes, self.values)
        near = fitted is not None and abs(fitted - self.exponent) <= self.tolerance
        return Check(name, statement, columns, tuple(rows), bool(near and also), self.tolerance, fitted, self.exponent)


# A constant, cos z and cos 2z with weights that cancel mu_0 and mu_2, for
# E cos(f g) = exp(-f^2 / 2) and mu_2 of cos(f z) = -f^2 exp(-f^2 / 2) / sqrt(2).
FREQUENCIES = (0.0, 1.0, 2.0)
WEIGHTS = (1.5 * math.exp(-2.0), -2.0 * math.exp(-1.5), 0.5)


def _waves(z: Tensor) -> Tensor:
    """sin z + w_0 + w_1 cos z + w_2 cos 2z; the double angle by its formula, since cosines cost most of it."""
    cosine = z.cos()
    return z.sin() + WEIGHTS[0] - WEIGHTS[2] + cosine * (WEIGHTS[1] + 2.0 * WEIGHTS[2] * cosine)


def _waves_slope(z: Tensor) -> Tensor:
    """cos z - w_1 sin z - 2 w_2 sin 2z."""
    cosine = z.cos()
    return cosine - z.sin() * (WEIGHTS[1] + 4.0 * WEIGHTS[2] * cosine)


def _waves_slope_kernel(cosines: Tensor) -> Tensor:
    """E[cos z_1 cos z_2] = cosh(c) / e, and likewise E[sin(e z_1) sin(f z_2)] = exp(-(e^2 + f^2) / 2) sinh(e f c)."""
    total = math.exp(-1.0) * cosines.cosh()
    for weight, e in zip(WEIGHTS, FREQUENCIES, strict=True):
        for other, f in zip(WEIGHTS, FREQUENCIES, strict=True):
            total = total + weight * other * e * f * math.exp(-(e * e + f * f) / 2.0) * (e * f * cosines).sinh()
    return total


# sin z + (3 e^-2 - 4 e^-1.5 cos z + cos 2z) / 2: smooth, Lipschitz, mu_0 = mu_2 = 0, and all other coefficients not 0.
WAVES = Activation("waves", _waves, _waves_slope, "none", kernel=_waves_slope_kernel)


def named(activation: str | Activation) -> Activation:
    """An activation by its name: waves, or any that `exhume.activations` knows."""
    return WAVES if activation == WAVES.name else activations.get(activation)


def sphere_samples(num_samples: int, dim: int, seed: int, purpose: str) -> Tensor:
    """Samples uniform on the sphere of radius sqrt(d), (n, d) in float64: Assumption 1."""
    generator = generator_for(seed, f"theory samples {purpose}")
    return on_sphere(torch.randn(num_samples, dim, generator=generator, dtype=torch.float64))


def feature_map(num_features: int, dim: int, activation: str | Activation, seed: int, purpose: str) -> RandomFeatureMap:
    """phi(x) = act(V x) in float64, V generated as for every victim: Eq. (1)."""
    matrix = GaussianMatrix(num_features, dim, seed_for(seed, f"theory features {purpose}"))
    return RandomFeatureMap(matrix, named(activation), torch.float64)


def entries(features: RandomFeatureMap) -> Tensor:
    """V, (p, d)."""
    return torch.cat([part.clone() for _, part in features.matrix.chunks(torch.float64)])


def feature_kernel(activation: str | Activation, cosines: Tensor) -> Tensor:
    """K(c) = E[phi(z_1) phi(z_2)] for standard Gaussians of correlation c, entry by entry.

    By Price's theorem K'(c) is the slope kernel, so that K(sin t) = mu_0^2 + int_0^t K'(sin s) cos s ds. In s even
    relu's slope kernel is smooth, and Gauss-Legendre quadrature is exact to rounding.
    """
    act = named(activation)
    places, weights = (torch.from_numpy(array) for array in np.polynomial.legendre.leggauss(48))
    angles = torch.arcsin(cosines.double().clamp(-1.0, 1.0))
    points = angles[..., None] * (places + 1.0) / 2.0  # (..., 48)
    integrals = (act.slope_kernel(points.sin()) * points.cos()) @ weights * angles / 2.0
    return float(act.hermite(0)[0]) ** 2 + integrals
