"""Records out of scikit-learn pipelines: linear estimators behind random Fourier features, attacked greedily.

Three tables: every estimator that keeps the span equation; RBFSampler by bandwidth, number of records and components;
30 breast-cancer rows through StandardScaler + RBFSampler + LogisticRegression. A record counts if each of its values is
right to 1e-6 of its column's range. The attack is given the number of records, which the scaler stores. Finished cases
are kept in figs/records.json; an interrupted run goes on where it was. `EXHUME_BENCH_CASES` limits the run to cases
whose name contains one of the given words.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn.linear_model as linear
import torch
from sklearn import datasets, svm
from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import StandardScaler

import exhume
from benches.problems import FIGURES, say, table
from exhume.estimators.linear import span_target
from exhume.support import files

STORE = FIGURES / "records.json"
RIGHT = 1e-6  # of a column's range
MOST_ROWS = 5e6  # that a search may pass through the features
SEEDS = (0, 1, 2)
DATA = {"diabetes": datasets.load_diabetes, "breast-cancer": datasets.load_breast_cancer, "wine": datasets.load_wine}
GAMMAS: tuple[float | str, ...] = (0.01, 0.05, 0.1, "scale", 0.3, 1.0)
RATIOS = (2, 3, 4)
CLASSES, NUMBERS = True, False  # what an estimator is fitted to
# Name: a builder, and whether it is fitted to classes. PassiveAggressive estimators are SGD ones in newer versions.
ESTIMATORS: dict[str, tuple[Callable[[], Any], bool]] = {
    "Ridge": (lambda: linear.Ridge(alpha=0.1), NUMBERS),
    "Ridge, alpha 1000": (lambda: linear.Ridge(alpha=1000.0), NUMBERS),
    "RidgeCV": (linear.RidgeCV, NUMBERS),
    "RidgeClassifier": (linear.RidgeClassifier, CLASSES),
    "LinearRegression": (linear.LinearRegression, NUMBERS),
    **{
        f"LogisticRegression, {solver}": (lambda solver=solver: linear.LogisticRegression(solver=solver), CLASSES)
        for solver in ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga")
    },
    "LogisticRegression, 3 steps": (lambda: linear.LogisticRegression(max_iter=3), CLASSES),
    "LogisticRegressionCV": (lambda: linear.LogisticRegressionCV(cv=2), CLASSES),
    "LinearSVC": (svm.LinearSVC, CLASSES),
    "LinearSVR": (lambda: svm.LinearSVR(C=100.0), NUMBERS),
    "SGDClassifier": (lambda: linear.SGDClassifier(random_state=0), CLASSES),
    "SGDClassifier, averaged": (lambda: linear.SGDClassifier(average=True, random_state=0), CLASSES),
    "SGDRegressor": (lambda: linear.SGDRegressor(random_state=0), NUMBERS),
    "Perceptron": (linear.Perceptron, CLASSES),
    "PassiveAggressiveClassifier": (linear.PassiveAggressiveClassifier, CLASSES),
    "PassiveAggressiveRegressor": (linear.PassiveAggressiveRegressor, NUMBERS),
    "HuberRegressor": (linear.HuberRegressor, NUMBERS),
    "PoissonRegressor": (linear.PoissonRegressor, NUMBERS),
    "GammaRegressor": (linear.GammaRegressor, NUMBERS),
    "TweedieRegressor": (linear.TweedieRegressor, NUMBERS),
    "BayesianRidge": (linear.BayesianRidge, NUMBERS),
}


@dataclass(frozen=True)
class Case:
    """A pipeline: its data and number of records, estimator, bandwidth, components as a multiple of dn, and seed."""

    data: str
    samples: int
    estimator: str
    gamma: float | str
    ratio: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.data} n={self.samples} {self.estimator} gamma={self.gamma} p={self.ratio:g}dn seed={self.seed}"


def records(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Random rows of the data set, standardised by their own mean and variance, and what is predicted."""
    inputs, labels = DATA[case.data](return_X_y=True)
    chosen = np.random.default_rng(case.seed).permutation(len(inputs))[: case.samples]
    _, classes = ESTIMATORS[case.estimator]
    targets = labels[chosen].astype(float)
    if classes and case.data == "diabetes":
        targets = (targets > np.median(targets)).astype(float)
    elif case.estimator.endswith("liblinear"):
        targets = (targets == 0).astype(float)  # this solver takes two classes
    elif not classes:
        targets = targets + 1.0  # positive, as some regressions ask
    return StandardScaler().fit_transform(inputs[chosen]), targets


def fitted(case: Case) -> tuple[exhume.Target, np.ndarray]:
    """What an adversary holds of the pipeline, and the truth."""
    inputs, targets = records(case)
    components = round(case.ratio * inputs.size)
    gamma = 1 / inputs.shape[1] if case.gamma == "scale" else case.gamma  # columns have variance 1
    sampler = RBFSampler(gamma=gamma, n_components=components, random_state=case.seed).fit(inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unconverged, or deprecated
        estimator = ESTIMATORS[case.estimator][0]().fit(sampler.transform(inputs), targets)
    return span_target([sampler], estimator), inputs


def sensitivity_problem(gamma: float, seed: int) -> tuple[exhume.Target, torch.Tensor]:
    """Six diabetes records behind random Fourier features, and the truth."""
    target, truth = fitted(Case("diabetes", 6, "Ridge", gamma, 4, seed))
    return target, torch.from_numpy(truth)


def right_records(found: np.ndarray, truth: np.ndarray) -> int:
    """How many records are found with every value right to 1e-6 of its column's range."""
    spread = np.ptp(truth, axis=0)
    spread[spread == 0] = 1.0
    off = np.abs(found[:, None] - truth[None]) / spread  # (m, n, d)
    return int((off.max(2).min(0) < RIGHT).sum())


def run(case: Case) -> dict[str, Any]:
    target, truth = fitted(case)
    began, cpu = time.perf_counter(), time.process_time()
    result = exhume.reconstruct(
        target,
        case.samples,
        method="greedy",
        seed=case.seed,
        max_passes=MOST_ROWS / case.samples,
        allow_underdetermined=True,
    )
    return {
        "right": right_records(result.samples.numpy(), truth),
        "found": len(result.samples),
        "verdict": result.certificate.verdict,
        "certified": sum(error < RIGHT for error in result.certificate.predicted_errors),
        "residual": result.certificate.residual,
        "passes": result.passes,
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
    }


def cases() -> dict[str, list[Case]]:
    return {
        "estimators": [
            Case(data, 12, name, "scale", 4, seed) for seed in SEEDS for name in ESTIMATORS for data in DATA
        ],
        "bandwidths": [
            Case("diabetes", samples, "Ridge", gamma, ratio, seed)
            for samples, ratio, seed, gamma in itertools.product((12, 30), reversed(RATIOS), SEEDS, GAMMAS)
        ],
        "breast-cancer": [
            Case("breast-cancer", 30, "LogisticRegression, lbfgs", "scale", ratio, 0) for ratio in (4, 3, 2, 1.5)
        ],
    }


def measured(wanted: list[Case]) -> dict[Case, dict[str, Any]]:
    """Results of the cases that are done or chosen, each kept as soon as it is there."""
    store = files.read_json(STORE) if STORE.exists() else {}
    words = os.environ.get("EXHUME_BENCH_CASES", "").split(",")
    for case in wanted:
        if case.name not in store and any(word in case.name for word in words):
            store[case.name] = run(case)
            files.write_json(STORE, store)
            value = store[case.name]
            say(f"{case.name}: {value['right']} of {case.samples}, {value['verdict']}, {value['cpu']:.1f} s")
    return {case: store[case.name] for case in wanted if case.name in store}


def summary(done: dict[Case, dict[str, Any]], wanted: list[Case]) -> str:
    """Records right of all, over the seeds that were measured, and the median seconds of computing."""
    here = {case: done[case] for case in wanted if case in done}
    if not here:
        return "-"
    right = sum(value["right"] for value in here.values())
    cost = statistics.median(value["cpu"] for value in here.values())
    return f"{right} of {sum(case.samples for case in here)}, {cost:.0f} s"


def by_estimator(done: dict[Case, dict[str, Any]]) -> None:
    rows = [
        (name, *(summary(done, [Case(data, 12, name, "scale", 4, seed) for seed in SEEDS]) for data in DATA))
        for name in ESTIMATORS
    ]
    table(("estimator", *DATA), rows)


def by_bandwidth(done: dict[Case, dict[str, Any]]) -> None:
    rows = []
    for samples, ratio in itertools.product((12, 30), RATIOS):
        cells = [[Case("diabetes", samples, "Ridge", gamma, ratio, seed) for seed in SEEDS] for gamma in GAMMAS]
        rows.append((samples, f"{ratio}dn", *(summary(done, cell) for cell in cells)))
    table(("records", "components", *(f"gamma {gamma}" for gamma in GAMMAS)), rows)


def by_components(done: dict[Case, dict[str, Any]], wanted: list[Case]) -> None:
    rows = [(f"{case.ratio:g}dn", summary(done, [case]), done[case]["verdict"]) for case in wanted if case in done]
    table(("components", "records right, seconds", "verdict"), rows)


def main() -> None:
    groups = cases()
    done = measured([case for group in groups.values() for case in group])
    by_estimator(done)
    print()
    by_bandwidth(done)
    print()
    by_components(done, groups["breast-cancer"])
    exact = {case: value for case, value in done.items() if value["verdict"] == "exact"}
    wrong = [case.name for case, value in exact.items() if value["right"] < value["found"]]
    print(
        f"\nCertified exact: {len(exact)} of {len(done)} pipelines; with a wrong record: {', '.join(wrong) or 'none'}."
    )
    print("Seconds are those of one core's computing. Records without a coefficient (beyond a margin) cannot be found.")
