"""Sweeps: grids of experiments, run on a cluster, kept in a file that survives a crash."""

from exhume.sweep.cell import AttackSpec, Cell, DataSpec, NetworkSpec, RandomFeaturesSpec
from exhume.sweep.grid import Grid
from exhume.sweep.outcome import Finished, Outcome

__all__ = ["AttackSpec", "Cell", "DataSpec", "Finished", "Grid", "NetworkSpec", "Outcome", "RandomFeaturesSpec"]
