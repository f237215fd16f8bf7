"""Problems and tables that several benches share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

import exhume
from exhume import data
from exhume.data import Dataset

FIGURES = Path("figs")


def sphere_problem(
    dim: int, samples: int, ratio: float, seed: int, **victim: Any
) -> tuple[Dataset, exhume.RandomFeatures]:
    """A sphere data set and random features with p = ratio d n trained on it."""
    training = data.load("sphere", dim=dim, samples=samples, seed=seed)
    width = round(ratio * dim * samples)
    return training, exhume.RandomFeatures(num_features=width, seed=seed, **victim).fit(
        training.inputs, training.labels
    )


def signed_error(result: exhume.Reconstruction, training: Dataset) -> float:
    """The claimed error: signed if the signs are determined, otherwise up to sign."""
    judged = exhume.score(result, training.inputs)
    return judged.claimed_error


def side_by_side(run: Callable[[Any], Any], cases: Iterable[Any]) -> list[Any]:
    """Runs cases in processes with one thread each, EXHUME_BENCH_PROCESSES or two; results keep the cases' order."""
    processes = int(os.environ.get("EXHUME_BENCH_PROCESSES", "2"))
    with ProcessPoolExecutor(processes, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return list(pool.map(run, cases))


def say(line: str) -> None:
    """Prints progress to stderr, apart from the table."""
    print(line, file=sys.stderr, flush=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table in Markdown."""
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(str(cell) for cell in row)} |", flush=True)
