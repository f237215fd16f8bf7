"""When a residual above rounding is what noise or drift leaves, rather than a spurious minimum.

A row's contribution is the increase in loss when it is removed. At a spurious minimum some row matches no training
sample, and contributes no more than the residual; where every row contributes far more, each matches a sample.
"""

from __future__ import annotations

import math

from exhume.attacks._base.problem import EquationCount
from exhume.attacks._base.search_tuning import NoiseFloorTuning
from exhume.equation.span import Span, SpanPoint


def is_noise_floor(equation: Span, point: SpanPoint, counted: EquationCount, tuning: NoiseFloorTuning) -> bool:
    """Whether the residual is small and every sample's contribution exceeds the loss by the margin.

    Args:
        equation: that was solved.
        point: a minimum of its loss.
        counted: equations and unknowns. With few surplus equations a fit of anything leaves little, so that the margin
            grows.
        tuning: the margin.
    """
    if not counted.determined:
        return False
    surplus = 1 - counted.unknowns / counted.equations
    least = float(equation.contributions(point).min())
    return math.sqrt(point.loss) < tuning.max_residual and point.loss < tuning.max_share * surplus * least
