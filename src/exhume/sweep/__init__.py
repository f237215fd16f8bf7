"""Sweeps: grids of experiments, computed by worker processes and stored in one SQLite file."""

from exhume.sweep.cell import Cell
from exhume.sweep.experiment import Finished, Outcome
from exhume.sweep.grid import Grid
from exhume.sweep.run import SweepProgress, run_sweep
from exhume.sweep.store import Counts, Record, Store

__all__ = ["Cell", "Counts", "Finished", "Grid", "Outcome", "Record", "Store", "SweepProgress", "run_sweep"]
