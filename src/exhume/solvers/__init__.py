"""Solvers: minimisers of a loss over samples. They know nothing of models or of the truth."""

from exhume.solvers.conjugate_gradient import Operator, conjugate_gradient
from exhume.solvers.descent import DescentState, descend
from exhume.solvers.gauss_newton import Course, Inner, Patience, gauss_newton_step, levenberg_marquardt, move
from exhume.solvers.momentum import momentum_step
from exhume.solvers.normal_equations import NormalEquations
from exhume.solvers.sphere import bounded, onto_sphere, tangent

__all__ = [
    "Course",
    "DescentState",
    "Inner",
    "NormalEquations",
    "Operator",
    "Patience",
    "bounded",
    "conjugate_gradient",
    "descend",
    "gauss_newton_step",
    "levenberg_marquardt",
    "momentum_step",
    "move",
    "onto_sphere",
    "tangent",
]
