"""Compares feature passes of small and medium problems with benches/passes.json; fails if they grow by 25 %."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import exhume
from benches.problems import say, side_by_side, table
from exhume import data
from exhume.support import files

RECORD = Path(__file__).with_name("passes.json")
# Allowed ratio of a median to the recorded one. On one machine the passes of a seed are always the same; on another,
# sums round differently, and the search may take other steps.
ALLOWED = 1.25
# More passes than any of the problems needs; the verdict of an attack that uses them up is not exact.
CAP = 8_000


@dataclass(frozen=True)
class Problem:
    """Random features with p = ratio d n on a data set; data that are drawn at random also depend on the seed."""

    source: str
    ratio: float
    seeds: int
    options: dict[str, Any] = field(default_factory=dict)
    activation: str = "relu"
    counted: bool = True  # whether the attack is given n

    def attack(self, seed: int) -> exhume.Reconstruction:
        """Trains a victim and attacks it."""
        seeded = {} if self.source == "cifar10" else {"seed": seed}
        training = data.load(self.source, **self.options, **seeded)
        width = round(self.ratio * training.inputs.numel())
        victim = exhume.RandomFeatures(num_features=width, activation=self.activation, seed=seed)
        victim.fit(training.inputs, training.labels)
        known = training.num_samples if self.counted else None
        return exhume.reconstruct(victim.target(), num_samples=known, seed=seed, max_passes=CAP, method="exact")


def _sphere(dim: int, samples: int, ratio: float, seeds: int, **more: Any) -> Problem:
    return Problem("sphere", ratio, seeds, {"dim": dim, "samples": samples}, **more)


# The problems that the tests use come first.
QUICK = {
    "sphere d=16 n=8 p=4dn": _sphere(16, 8, 4, 3),
    "sphere d=30 n=20 p=5dn": _sphere(30, 20, 5, 5),
    "sphere d=20 n=6 p=5dn gelu": _sphere(20, 6, 5, 3, activation="gelu"),
}
PROBLEMS = QUICK | {
    "sphere d=30 n=20 p=2dn": _sphere(30, 20, 2, 5),
    "sphere d=30 n=20 p=3dn": _sphere(30, 20, 3, 5),
    "sphere d=30 n=10 p=3dn, n unknown": _sphere(30, 10, 3, 3, counted=False),
    "sphere d=50 n=10 p=5dn tanh": _sphere(50, 10, 5, 3, activation="tanh"),
    "sphere d=100 n=20 p=5dn": _sphere(100, 20, 5, 4),
    "sphere d=100 n=100 p=3dn": _sphere(100, 100, 3, 2),
    "breast-cancer n=8 p=4dn, two outputs": Problem("breast-cancer", 4, 4, {"samples": 8, "labels": "one-hot"}),
    "CIFAR-10 8 x 8 n=10 p=4dn": Problem("cifar10", 4, 4, {"per_class": 5, "size": 8}),
}


@dataclass(frozen=True)
class Cost:
    """Passes of every seed, and how many attacks have the verdict exact."""

    passes: tuple[float, ...]
    exact: int

    @property
    def median(self) -> float:
        return statistics.median(self.passes)

    def exceeds(self, recorded: Cost) -> bool:
        """Whether it is worse than the record: more passes than allowed, or fewer exact verdicts."""
        return self.median > ALLOWED * recorded.median or self.exact < recorded.exact

    def to_json(self) -> dict[str, Any]:
        return {"median": self.median, "exact": self.exact, "passes": list(self.passes)}


def cost(results: Sequence[tuple[float, str]]) -> Cost:
    """The cost of one problem from the passes and verdict of every seed."""
    return Cost(tuple(round(passes, 1) for passes, _ in results), sum(verdict == "exact" for _, verdict in results))


def run(case: tuple[str, int]) -> tuple[float, str]:
    """Passes and verdict of one attack."""
    name, seed = case
    result = PROBLEMS[name].attack(seed)
    verdict = result.certificate.verdict
    say(f"{name}, seed {seed}: {verdict}, {result.passes:.0f} passes, {result.seconds:.1f} s")
    return result.passes, verdict


def recorded() -> dict[str, Cost]:
    """The content of benches/passes.json; empty if there is no such file."""
    values = files.read_json(RECORD) if RECORD.exists() else {}
    return {name: Cost(tuple(value["passes"]), value["exact"]) for name, value in values.items()}


def compared(old: Mapping[str, Cost], new: Mapping[str, Cost]) -> list[tuple[str, ...]]:
    """One row per problem: recorded and new median, their ratio, exact verdicts, and whether that is worse."""
    rows = []
    for name, now in new.items():
        before = old.get(name)
        exact = f"{now.exact} of {len(now.passes)}"
        if before is None:
            rows.append((name, "-", f"{now.median:.0f}", "-", "-", exact, "not recorded"))
            continue
        medians = (f"{before.median:.0f}", f"{now.median:.0f}", f"{now.median / before.median:.2f}")
        was = f"{before.exact} of {len(before.passes)}"
        rows.append((name, *medians, was, exact, "worse" if now.exceeds(before) else "no worse"))
    return rows


def main(names: Sequence[str] | None = None) -> None:
    """Measures and compares. EXHUME_RECORD=1 records the result; otherwise exits with 1 if a problem became worse."""
    chosen = [name for name in names or PROBLEMS if _is_there(PROBLEMS[name])]
    # The longest first, so that both processes end at about the same time.
    cases = [(name, seed) for name in reversed(chosen) for seed in range(PROBLEMS[name].seeds)]
    results = dict(zip(cases, side_by_side(run, cases), strict=True))
    new = {name: cost([results[name, seed] for seed in range(PROBLEMS[name].seeds)]) for name in chosen}
    old = recorded()
    table(("problem", "recorded", "passes", "ratio", "exact before", "exact", "verdict"), compared(old, new))
    if os.environ.get("EXHUME_RECORD") == "1":
        files.write_json(RECORD, {name: each.to_json() for name, each in (old | new).items() if name in PROBLEMS})
        print(f"\nrecorded in {RECORD.name}")
        return
    worse = [name for name, each in new.items() if name in old and each.exceeds(old[name])]
    if worse:
        sys.exit(f"more than {ALLOWED} times the recorded passes, or fewer exact: {'; '.join(worse)}")


def _is_there(problem: Problem) -> bool:
    """Whether the data of a problem can be loaded here."""
    try:
        data.load(problem.source, **problem.options)
    except exhume.DataError as error:
        say(f"left out: {error}")
        return False
    return True
