"""Sweeps: grids of experiments, run on a cluster, kept in a file that survives a crash."""

from exhume.sweep.cell import AttackSpec, Cell, DataSpec, NetworkSpec, RandomFeaturesSpec
from exhume.sweep.grid import Grid
from exhume.sweep.outcome import Finished, Outcome
from exhume.sweep.preflight import check
from exhume.sweep.record import Counts, Record
from exhume.sweep.run import SweepProgress, run_sweep
from exhume.sweep.store import Store

__all__ = [
    "AttackSpec",
    "Cell",
    "Counts",
    "DataSpec",
    "Finished",
    "Grid",
    "NetworkSpec",
    "Outcome",
    "RandomFeaturesSpec",
    "Record",
    "Store",
    "SweepProgress",
    "check",
    "run_sweep",
]
