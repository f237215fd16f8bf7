"""Solvers: minimisers of a loss over samples. They know nothing of models or of the truth."""

from exhume.solvers.descent import DescentState, descend
from exhume.solvers.sphere import onto_sphere

__all__ = ["DescentState", "descend", "onto_sphere"]
