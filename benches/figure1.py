"""The paper's Figure 1 right: 100 CIFAR-10 images, 50 frogs and 50 trucks, p = 10dn = 3,072,000 (EXHUME_DATA)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from benches.headline import COLUMNS, Case, apart
from benches.problems import FIGURES, table

# V would take 37.7 GB; rows that do not fit the budget are regenerated on every pass.
MEMORY_BUDGET = "12GB"
PER_CLASS, NUM_FEATURES = 50, 10 * 3072 * 100
SEEDS = (0, 1)
MAX_GB, MAX_MINUTES, HOPED_MINUTES = 16, 45, 30


def headline(seeds: Sequence[int]) -> list[Case]:
    """The figure's problem, once for each seed of V."""
    return [
        Case(f"figure1_seed{seed}", "cifar10", PER_CLASS, NUM_FEATURES, seed, memory_budget=MEMORY_BUDGET)
        for seed in seeds
    ]


def main(cases: Sequence[Case] | None = None) -> None:
    """Runs the given cases, or the seeds in EXHUME_BENCH_CASES, or `SEEDS`."""
    results = apart(headline(_seeds()) if cases is None else cases)
    rows = []
    for measured in results:
        met = measured.solved and measured.peak_gb < MAX_GB and measured.seconds < 60 * MAX_MINUTES
        rows.append((*measured.cells(), f"{measured.seconds / 60:.1f}", "yes" if met else "no"))
    table((*COLUMNS, "total minutes", "met"), rows)
    print(
        f"\nmet: all recovered with signs, mean error below 1e-3, under {MAX_GB} GB and {MAX_MINUTES} minutes with "
        f"training ({HOPED_MINUTES} were hoped for); at most {results[0].case.memory_budget} for V, "
        f"{results[0].threads} threads; galleries and numbers in {FIGURES}"
    )


def _seeds() -> Sequence[int]:
    words = os.environ.get("EXHUME_BENCH_CASES", "").replace(",", " ").split()
    if not all(word.isdecimal() for word in words):
        sys.exit(f"EXHUME_BENCH_CASES is {' '.join(words)!r}; valid for this bench: seeds, such as 0,1")
    return [int(word) for word in words] or SEEDS
