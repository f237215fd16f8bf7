"""Images recovered from random features; each case runs in its own process, to measure its peak memory."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import torch

import exhume
from benches.problems import FIGURES, say
from exhume import data
from exhume.attacks import ProgressEvent
from exhume.data import Dataset
from exhume.scoring.aligned import align
from exhume.scoring.gallery import save_gallery
from exhume.support import files

COLUMNS = (
    "n",
    "p",
    "seed",
    "recovered",
    "signed error",
    "worst image",
    "worst norm",
    "labels",
    "verdict",
    "passes",
    "coordinates",
    "training s",
    "attack s",
    "total s",
    "peak GB",
)
# Seconds between two progress lines of a running attack.
_PATIENCE = 30.0
# Pairs per row of the gallery: a hundred pairs fill a landscape page.
_PAIRS_A_ROW = 20


@dataclass(frozen=True)
class Case:
    """A victim and the attack on it.

    Attributes:
        name: name of the case and of its files.
        source: "cifar10" or "tiny-imagenet".
        per_class: number of images of each of the paper's two classes.
        num_features: p.
        seed: seed of V and of the attack.
        size: pixels per side.
        memory_budget: memory for V.
        max_passes: limit of the attack; None means no limit.
    """

    name: str
    source: str
    per_class: int
    num_features: int
    seed: int
    size: int = 32
    memory_budget: str = "4GB"
    max_passes: float | None = None


@dataclass(frozen=True)
class Measured:
    """Results of a case. All errors are signed; `worst_norm` and `labels` are None if they are not determined."""

    case: Case
    samples: int
    recovered: int
    error: float
    worst: float
    worst_norm: float | None
    labels: float | None
    verdict: str
    passes: float
    coordinates: Any
    training_seconds: float
    attack_seconds: float
    peak_gb: float
    threads: int

    @property
    def seconds(self) -> float:
        """Seconds of training and attack together."""
        return self.training_seconds + self.attack_seconds

    @property
    def solved(self) -> bool:
        """Whether all samples are recovered with signs and the mean error is below 1e-3."""
        return self.recovered == self.samples and self.error < 1e-3

    def cells(self) -> tuple[object, ...]:
        """The values of `COLUMNS`."""
        return (
            self.samples,
            f"{self.case.num_features:,}",
            self.case.seed,
            f"{self.recovered} of {self.samples}",
            f"{self.error:.1e}",
            f"{self.worst:.1e}",
            "-" if self.worst_norm is None else f"{self.worst_norm:.1e}",
            "-" if self.labels is None else f"{self.labels:.0%}",
            self.verdict,
            f"{self.passes:.0f}",
            "-" if self.coordinates is None else self.coordinates,
            f"{self.training_seconds:.0f}",
            f"{self.attack_seconds:.0f}",
            f"{self.seconds:.0f}",
            f"{self.peak_gb:.1f}",
        )


def measure(case: Case) -> Measured:
    """Trains, attacks and scores in this process; writes figs/<name>.png and figs/<name>.json."""
    training = data.load(case.source, per_class=case.per_class, size=case.size)
    started = time.perf_counter()
    victim = exhume.RandomFeatures(case.num_features, seed=case.seed, memory_budget=case.memory_budget)
    victim.fit(training.inputs, training.labels)
    trained = time.perf_counter()
    say(f"{case.name}: trained in {trained - started:.0f} s, {_peak():.1f} GB")
    assert training.picture is not None
    target = victim.target(knowledge=exhume.Knowledge.about(training.labels), input_shape=training.picture.shape)
    limits = {} if case.max_passes is None else {"max_passes": case.max_passes}
    result = exhume.reconstruct(target, seed=case.seed, progress=Teller(case.name), method="exact", **limits)
    attacked, peak = time.perf_counter(), _peak()
    judged = exhume.score(result, training.inputs, true_labels=training.labels)
    # A true sample without a matching row counts as an error of 1, as in the mean error.
    errors = [match.error for match in judged.matches] + [1.0] * judged.missing
    norms = result.samples[[match.row for match in judged.matches]].double().norm(dim=1)
    true_norms = training.inputs[[match.truth_index for match in judged.matches]].double().norm(dim=1)
    measured = Measured(
        case=case,
        samples=training.num_samples,
        recovered=judged.recovered,
        error=judged.error,
        worst=max(errors),
        worst_norm=float((norms / true_norms - 1).abs().max()) if result.norms_determined else None,
        labels=judged.label_accuracy,
        verdict=result.certificate.verdict,
        passes=result.passes,
        coordinates=result.evidence.get("coordinates"),
        training_seconds=trained - started,
        attack_seconds=attacked - trained,
        peak_gb=peak,
        threads=torch.get_num_threads(),
    )
    say(f"{case.name}: {' | '.join(map(str, measured.cells()))}\n{result.summary()}")  # before writing files can fail
    _save(measured, training, result, judged)
    return measured


def apart(cases: Sequence[Case]) -> list[Measured]:
    """Measures the cases one after the other, each in a new process."""
    return [_in_a_new_process(measure, case) for case in cases]


def chosen(cases: Sequence[Case]) -> list[Case]:
    """The cases whose names contain one of the comma-separated words of EXHUME_BENCH_CASES, or all if it is not set."""
    words = os.environ.get("EXHUME_BENCH_CASES", "").replace(",", " ").split()
    kept = [case for case in cases if not words or any(word in case.name for word in words)]
    if not kept:
        sys.exit(f"EXHUME_BENCH_CASES chooses none of {', '.join(case.name for case in cases)}")
    return kept


class Teller:
    """Prints the progress of a running attack at intervals."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._started = self._told = time.monotonic()

    def __call__(self, event: ProgressEvent) -> None:
        now = time.monotonic()
        if now - self._told >= _PATIENCE:
            self._told = now
            seconds = now - self._started
            say(f"{self._name}: {seconds:.0f} s, step {event.step}, {event.passes:.0f} passes, loss {event.loss:.1e}")


def _in_a_new_process(work: Callable[[Case], Measured], case: Case) -> Measured:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, case).result()


def _save(measured: Measured, training: Dataset, result: exhume.Reconstruction, judged: exhume.Score) -> None:
    """Writes the gallery of all matched pairs, and all measurements."""
    FIGURES.mkdir(exist_ok=True)
    name = measured.case.name
    metrics = {"measured": asdict(measured), "score": judged.to_json(), "result": result.to_json()}
    files.write_json(FIGURES / f"{name}.json", metrics)
    shown = align(result.samples, judged, training.inputs)
    borrowed = f"; {' and '.join(shown.borrowed)} from the truth" if shown.borrowed else ""
    title = f"{measured.recovered} of {measured.samples} recovered, p = {measured.case.num_features:,}"
    title += f" (true above, recovered below with its error{borrowed})"
    assert training.picture is not None
    save_gallery(
        FIGURES / f"{name}.png",
        training.inputs[list(shown.indices)],
        shown.rows,
        shown.errors,
        training.picture.to_pictures,
        title=title,
        columns=_PAIRS_A_ROW if measured.samples > 2 * _PAIRS_A_ROW else 10,
    )


def _peak() -> float:
    """Peak memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
