"""Steps of feature maps as differentiable functions of rows, from plain tensors: the maps of data pipelines.

Each step is applied to rows (m, d) and computes in their precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Step = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Affine:
    """x A^T + b: scalers, projections, principal components.

    Attributes:
        matrix: A (q, d), or its diagonal (d,).
        offset: b (q,).
    """

    matrix: Tensor
    offset: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        matrix, offset = self.matrix.to(rows), self.offset.to(rows)
        return (rows * matrix if matrix.ndim == 1 else rows @ matrix.T) + offset


@dataclass(frozen=True)
class Cosine:
    """cos(W x + b), W (p, d): random Fourier features."""

    frequencies: Tensor
    phases: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        return torch.cos(rows @ self.frequencies.to(rows).T + self.phases.to(rows))


@dataclass(frozen=True)
class Elementwise:
    """A function of every number, by its name in torch, such as "tanh"."""

    name: str

    def __call__(self, rows: Tensor) -> Tensor:
        return getattr(torch, self.name)(rows)


@dataclass(frozen=True)
class SkewedLog:
    """log(x + c), which the skewed chi-squared kernel takes before its random Fourier features."""

    skewness: float

    def __call__(self, rows: Tensor) -> Tensor:
        return torch.log(rows + self.skewness)


@dataclass(frozen=True)
class AdditiveChiSquared:
    """The additive chi-squared kernel, sampled at `steps` frequencies (Vedaldi & Zisserman 2010); defined for x >= 0.

    Attributes:
        steps: frequencies, the zero among them.
        interval: between them.
    """

    steps: int
    interval: float

    def __call__(self, rows: Tensor) -> Tensor:
        positive = rows > 0
        safe = torch.where(positive, rows, torch.ones_like(rows))  # a root and a logarithm that have derivatives
        zero = torch.where(rows < 0, torch.full_like(rows, math.nan), torch.zeros_like(rows))
        parts = [safe.sqrt() * math.sqrt(self.interval)]
        for step in range(1, self.steps):
            size = (2 * self.interval / math.cosh(math.pi * step * self.interval) * safe).sqrt()
            angle = step * self.interval * safe.log()
            parts += [size * angle.cos(), size * angle.sin()]
        return torch.cat([torch.where(positive, part, zero) for part in parts], 1)


@dataclass(frozen=True)
class CountSketch:
    """The polynomial count sketch (Pham & Pagh 2013): the cyclic convolution of linear sketches of x.

    Attributes:
        sketches: (degree, p, d) of the columns.
        offsets: (degree, p): the sketch of the constant that is appended to x.
    """

    sketches: Tensor
    offsets: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        linear = torch.einsum("md,kpd->kmp", rows, self.sketches.to(rows)) + self.offsets.to(rows)[:, None]
        return torch.fft.irfft(torch.fft.rfft(linear).prod(0), n=linear.shape[-1])


@dataclass(frozen=True)
class Monomials:
    """Products of powers of the columns: exponents (p, d), whole numbers."""

    exponents: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        powers = [torch.ones_like(rows)]
        for _ in range(int(self.exponents.max())):
            powers.append(powers[-1] * rows)
        table = torch.stack(powers, 2)  # (m, d, degree + 1)
        columns = torch.arange(rows.shape[1], device=rows.device)
        out = torch.ones((len(rows), len(self.exponents)), dtype=rows.dtype, device=rows.device)
        for column in columns:
            out = out * table[:, column, self.exponents[:, column]]
        return out


@dataclass(frozen=True)
class Splines:
    """Piecewise polynomials of every column.

    Attributes:
        breaks: for each column (q + 1,) ends of the pieces; beyond the first and the last the function is constant.
        coefficients: for each column (degree + 1, q, b) of b polynomials on each piece, the highest power first, in
            the distance from the beginning of the piece.
    """

    breaks: tuple[Tensor, ...]
    coefficients: tuple[Tensor, ...]

    def __call__(self, rows: Tensor) -> Tensor:
        parts = []
        for column, pieces in enumerate(zip(self.breaks, self.coefficients, strict=True)):
            breaks, table = (each.to(rows) for each in pieces)
            values = torch.minimum(torch.maximum(rows[:, column], breaks[0]), breaks[-1])
            piece = torch.searchsorted(breaks, values.detach().contiguous(), right=True) - 1
            piece = piece.clamp(0, len(breaks) - 2)
            distance = (values - breaks[piece])[:, None]
            total = torch.zeros_like(distance)
            for power in table:  # (q, b)
                total = total * distance + power[piece]
            parts.append(total)
        return torch.cat(parts, 1)


@dataclass(frozen=True)
class Selected:
    """Some of the columns."""

    columns: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        return rows[:, self.columns]
