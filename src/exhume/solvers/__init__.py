"""Solvers: minimisers of a loss over samples. They know nothing of models or of the truth."""

from exhume.equation.norms import FixedNorm, FreeNorm, Norms
from exhume.solvers.conjugate_gradient import CGOptions, conjugate_gradient
from exhume.solvers.heavy_ball import momentum_step
from exhume.solvers.levenberg_marquardt import (
    Damping,
    LMState,
    StoppingRule,
    gauss_newton_step,
    levenberg_marquardt,
    lm_step,
)
from exhume.solvers.sphere_descent import sphere_descent_step

__all__ = [
    "CGOptions",
    "Damping",
    "FixedNorm",
    "FreeNorm",
    "LMState",
    "Norms",
    "StoppingRule",
    "conjugate_gradient",
    "gauss_newton_step",
    "levenberg_marquardt",
    "lm_step",
    "momentum_step",
    "sphere_descent_step",
]
