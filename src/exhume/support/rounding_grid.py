"""How coarsely released weights were rounded: bfloat16, float16 and integer grids are recognised in their values."""

from __future__ import annotations

import math

import torch

# Explicit bits of the mantissa.
_MANTISSA_BITS = {torch.bfloat16: 7, torch.float16: 10}
# Exponent of float16's smallest normal number; below it the spacing is constant.
_SMALLEST_EXPONENT = {torch.bfloat16: -126, torch.float16: -14}
# Distinct values that 8-bit integers leave in a row of weights; a row with fewer entries than this shows no grid.
_LEVELS = 256
# How far, in steps, a weight may lie off an integer grid: dequantisation in float32 rounds.
_OFF_GRID = 1e-2


def rounding_noise(weights: torch.Tensor) -> float | None:
    """Standard deviation of the rounding error of a weight, over all of them; None if they have float32's precision.

    Args:
        weights: (h, m). Grids of integers may have another step in each row.
    """
    for dtype, bits in _MANTISSA_BITS.items():
        if bool((weights.to(dtype).to(weights) == weights).all()):
            sizes = weights[weights != 0].abs()
            if not len(sizes):
                return None
            exponents = sizes.log2().floor().clamp_min(_SMALLEST_EXPONENT[dtype])
            return float((2.0 ** (2 * (exponents - bits))).mean().sqrt()) / math.sqrt(12)
    steps = [_integer_step(row) for row in weights]
    known = [step for step in steps if step is not None]
    if len(known) < len(steps):
        return None
    return math.sqrt(sum(step**2 for step in known) / len(known) / 12)


def _integer_step(row: torch.Tensor) -> float | None:
    """The step of a grid with at most 256 levels that holds all values of a row; None if there is none."""
    values = row.unique()
    gaps = values.diff()
    if len(values) < 2:
        return None
    step = float(gaps.min())
    if step <= 0 or float(values[-1] - values[0]) > _LEVELS * step:
        return None
    # The mean over the whole range is more precise than one gap.
    step = float(values[-1] - values[0]) / max(round(float(values[-1] - values[0]) / step), 1)
    levels = (values - values[0]) / step
    return step if bool(((levels - levels.round()).abs() < _OFF_GRID).all()) else None
