"""A benchmark of attacks: named, versioned victims, any attack that implements the interface, one table and page."""

from exhume.benchmark.foreign import load_attack
from exhume.benchmark.ranking import Row, ranked
from exhume.benchmark.run import Benchmark, run_benchmark
from exhume.benchmark.victims import VICTIMS, BenchmarkVictim, Made, chosen_victims

__all__ = [
    "VICTIMS",
    "Benchmark",
    "BenchmarkVictim",
    "Made",
    "Row",
    "chosen_victims",
    "load_attack",
    "ranked",
    "run_benchmark",
]
