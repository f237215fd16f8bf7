"""Solvers: minimisers of a loss over samples. They know nothing of models or of the truth."""

from exhume.solvers.conjugate_gradient import conjugate_gradient
from exhume.solvers.descent import DescentState, descend
from exhume.solvers.gauss_newton import Inner, Patience, gauss_newton_step, levenberg_marquardt, move
from exhume.solvers.sphere import onto_sphere

__all__ = [
    "DescentState",
    "Inner",
    "Patience",
    "conjugate_gradient",
    "descend",
    "gauss_newton_step",
    "levenberg_marquardt",
    "move",
    "onto_sphere",
]
