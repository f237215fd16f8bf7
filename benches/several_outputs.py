"""Heads of several outputs: the paper's Figure 6 left, and random features at 1.6 times the wall (EXHUME_DATA).

Every finished case is appended to a file and skipped by the next run: runs/several_outputs_bench.jsonl, or the path in
EXHUME_BENCH_STORE. EXHUME_BENCH_CASES selects groups: figure6, figure6_gelu, random_features. EXHUME_BENCH_SEEDS limits
the number of cases of each row. EXHUME_BENCH_PASSES is what `exact` may spend on a case, by default 400,000 passes.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import exhume
from benches.problems import say, table
from exhume import data, networks
from exhume.data import Dataset
from exhume.target.target import Target
from exhume.victims import train
from exhume.victims.trained_network import target
from exhume.wall import Wall

STORE = Path("runs/several_outputs_bench.jsonl")
PASSES = 400_000.0
# Steps of descent: the paper runs up to 10^6; these show where it stands after about the time of `exact`.
DESCENT_STEPS = 2000
RECOVERED, EXACT = 0.1, 1e-3
DIM, SAMPLES, TIMES_THE_WALL = 30, 20, 1.6


@dataclass(frozen=True)
class Case:
    """One attack on one head: `size` is p_L/dn of a network, and the number of outputs of random features."""

    group: str
    size: float
    seed: int
    method: str

    @property
    def key(self) -> str:
        return f"{self.group}/{self.size:g}/{self.seed}/{self.method}"


@dataclass(frozen=True)
class Measured:
    """What came of a case: the claimed error of every sample, and the certificate's words and prediction."""

    key: str
    weights: int
    errors: tuple[float, ...]
    verdict: str
    predicted: float | None
    seconds: float
    cpu_seconds: float
    passes: float = 0.0


def figure6(ratio: float, seed: int, activation: str = "relu") -> tuple[Dataset, Target]:
    """Two-layer networks on ten CIFAR-10 images at 16 x 16, ten classes, as `exhume reproduce fig6` trains them."""
    training = data.load("cifar10", classes="all", per_class=1, size=16)
    wall, outputs = training.inputs.numel(), training.labels.shape[1]
    network = networks.TwoLayer(training.input_dim, round(ratio * wall / outputs), outputs, activation, seed=seed)
    trained = train(network, training.inputs, training.labels, stable=True)
    knowledge = exhume.Knowledge.about(training.labels, interpolated=trained.interpolates)
    assert training.picture is not None
    return training, target(trained, input_shape=training.picture.shape, knowledge=knowledge)


def figure6_gelu(ratio: float, seed: int) -> tuple[Dataset, Target]:
    """The same with GELU in the place of ReLU."""
    return figure6(ratio, seed, "gelu")


def random_features(outputs: float, seed: int) -> tuple[Dataset, Target]:
    """Samples on a sphere, random labels of -1 and 1 in each output, ReLU."""
    width = round(TIMES_THE_WALL * wall(round(outputs)))
    training = data.load("sphere", dim=DIM, samples=SAMPLES, seed=seed)
    signs = torch.randint(2, (SAMPLES, round(outputs)), generator=torch.Generator().manual_seed(seed))
    victim = exhume.RandomFeatures(num_features=width, seed=seed).fit(training.inputs, 2.0 * signs - 1)
    return training, victim.target()


def wall(outputs: int) -> int:
    """The fewest ReLU features that determine the samples, by counts."""
    return Wall(DIM, outputs, SAMPLES, active_share=0.5).features()


@dataclass(frozen=True)
class Group:
    """Cases of one kind: how a victim is made, the sizes, how many seeds, and the first: those before served tuning."""

    make: Callable[[float, int], tuple[Dataset, Target]]
    sizes: tuple[float, ...]
    seeds: int
    first_seed: int = 0


GROUPS = {
    "figure6": Group(figure6, (2, 2.5, 3), 3),
    "figure6_gelu": Group(figure6_gelu, (1.5, 2), 3),
    "random_features": Group(random_features, (2, 5, 10, 20), 10, first_seed=5),
}


def cases(name: str) -> Iterator[Case]:
    """The cases of a group, those of `exact` first."""
    seeds = min(GROUPS[name].seeds, int(os.environ.get("EXHUME_BENCH_SEEDS", GROUPS[name].seeds)))
    for method in ("exact", "descent"):
        for seed in range(GROUPS[name].first_seed, GROUPS[name].first_seed + seeds):
            yield from (Case(name, size, seed, method) for size in GROUPS[name].sizes)


def measure(case: Case) -> Measured:
    """Trains the victim, attacks it and compares with the truth."""
    training, victim = GROUPS[case.group].make(case.size, case.seed)
    passes = float(os.environ.get("EXHUME_BENCH_PASSES", PASSES))
    settings: dict[str, Any] = {"max_passes": passes} if case.method == "exact" else {"max_steps": DESCENT_STEPS}
    began = time.process_time()
    result = exhume.reconstruct(
        victim, num_samples=training.num_samples, method=case.method, seed=case.seed, **settings
    )
    return Measured(
        key=case.key,
        weights=victim.num_parameters,
        errors=tuple(exhume.score(result, training.inputs).claimed_errors),
        verdict=result.certificate.verdict,
        predicted=result.certificate.predicted_error,
        seconds=result.seconds,
        cpu_seconds=time.process_time() - began,
        passes=result.passes,
    )


def run(wanted: Iterable[Case], path: Path) -> dict[str, Measured]:
    """Measures the cases that the file does not hold; a line that a killed run left incomplete is measured again."""
    known: dict[str, Measured] = {}
    path.parent.mkdir(parents=True, exist_ok=True)
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        if line.endswith("}"):
            value = json.loads(line)
            known[value["key"]] = Measured(**{**value, "errors": tuple(value["errors"])})
    for case in wanted:
        if case.key not in known:
            found = known[case.key] = measure(case)
            with path.open("a", encoding="utf-8") as file:
                file.write(f"\n{json.dumps(asdict(found))}")
            say(f"{case.key}: worst error {max(found.errors):.1e}, {found.verdict}, {found.cpu_seconds:.0f} s of CPU")
    return known


def row(members: list[Case], known: dict[str, Measured]) -> tuple[object, ...]:
    """A row of the table: cases that differ in their seed only."""
    case, found = members[0], [known[each.key] for each in members]
    worst = [max(each.errors) for each in found]
    predicted = [each.predicted for each in found if each.predicted is not None]
    recovered = sum(error < RECOVERED for each in found for error in each.errors)
    size = f"{case.size:g} outputs" if case.group == "random_features" else f"{case.size:g}dn"
    return (
        size,
        found[0].weights,
        case.method,
        f"{sum(error < EXACT for error in worst)} of {len(found)}",
        f"{sum(error < RECOVERED for error in worst)} of {len(found)}",
        f"{recovered} of {sum(len(each.errors) for each in found)}",
        f"{statistics.median(worst):.1e}",
        f"{statistics.median(predicted):.1e}" if predicted else "-",
        ", ".join(sorted({each.verdict for each in found})),
        f"{statistics.median(each.passes for each in found):.0f}",
        f"{statistics.median(each.cpu_seconds for each in found):.0f}",
    )


COLUMNS = (
    *("head", "weights", "attack", "seeds with all below 1e-3", "seeds with all below 0.1", "samples below 0.1"),
    *("median worst error", "median predicted", "verdicts", "median passes", "median CPU seconds"),
)


def main() -> None:
    names = os.environ.get("EXHUME_BENCH_CASES", "").replace(",", " ").split() or list(GROUPS)
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        sys.exit(f"EXHUME_BENCH_CASES: no group {', '.join(unknown)}; valid: {', '.join(GROUPS)}")
    for name in names:
        known = run(cases(name), Path(os.environ.get("EXHUME_BENCH_STORE", STORE)))
        rows: dict[tuple[str, float], list[Case]] = {}
        for case in cases(name):
            rows.setdefault((case.method, case.size), []).append(case)
        print(f"\n### {name}: {(GROUPS[name].make.__doc__ or '').splitlines()[0]}\n", flush=True)
        table(COLUMNS, [row(members, known) for members in rows.values()])
