"""Rows out of scikit-learn estimators: those that they keep, and those that their networks' weights hold.

Three tables: rows found of rows kept, for every estimator that keeps some, through three nested pipelines;
MLPClassifier and MLPRegressor behind a StandardScaler, by solver, neurons, rows and alpha; and MLPClassifier with tanh
and logistic units. The attack is not told the truth. Finished cases of networks are kept in figs/estimators.json; an
interrupted run goes on where it was. `EXHUME_BENCH_CASES=kept`, `networks` or `smooth` prints one table alone,
`EXHUME_BENCH_SEEDS=0` with that seed alone.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
import warnings
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn import (
    cluster,
    compose,
    datasets,
    decomposition,
    ensemble,
    gaussian_process,
    impute,
    kernel_approximation,
    kernel_ridge,
    linear_model,
    manifold,
    model_selection,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    semi_supervised,
    svm,
)
from sklearn.pipeline import make_pipeline

import exhume
from benches.problems import FIGURES, say, table
from exhume.estimators.stored_rows import stored_rows
from exhume.estimators.walk import walk
from exhume.support import files

STORE = FIGURES / "estimators.json"
SEEDS = (0, 1, 2)
MAX_SECONDS = 60.0
KEPT_ROWS = 60
KEEPING = (
    neighbors.KNeighborsClassifier(),
    neighbors.KNeighborsRegressor(),
    neighbors.RadiusNeighborsRegressor(radius=100.0),
    neighbors.NearestNeighbors(),
    neighbors.LocalOutlierFactor(novelty=True),
    neighbors.KernelDensity(),
    svm.SVC(),
    svm.NuSVC(nu=0.2),
    svm.SVR(),
    svm.NuSVR(),
    svm.OneClassSVM(),
    kernel_ridge.KernelRidge(),
    gaussian_process.GaussianProcessClassifier(),
    gaussian_process.GaussianProcessRegressor(),
    make_pipeline(kernel_approximation.Nystroem(n_components=20), linear_model.Ridge()),
    make_pipeline(decomposition.KernelPCA(3), linear_model.Ridge()),
    make_pipeline(impute.KNNImputer(), linear_model.Ridge()),
    semi_supervised.LabelPropagation(),
    semi_supervised.LabelSpreading(),
    cluster.DBSCAN(eps=5),
    cluster.HDBSCAN(),
    cluster.AffinityPropagation(),
    cluster.KMeans(20, random_state=0),
    manifold.Isomap(),
    manifold.LocallyLinearEmbedding(),
    naive_bayes.GaussianNB(),
    ensemble.IsolationForest(random_state=0),
    model_selection.GridSearchCV(svm.SVC(), {"C": [1, 10]}),
    ensemble.VotingClassifier([("svc", svm.SVC()), ("near", neighbors.KNeighborsClassifier())]),
    ensemble.StackingClassifier([("near", neighbors.KNeighborsClassifier())], passthrough=True),
    ensemble.BaggingClassifier(neighbors.KNeighborsClassifier(), n_estimators=3, random_state=0),
)
NETWORKS = (neural_network.MLPClassifier, neural_network.MLPRegressor)
GRID = (("sgd", "lbfgs"), (100, 400), (6, 12, 20), (1e-4, 0.1))
# Estimator; solver, neurons, rows and alpha; units.
Network: TypeAlias = tuple[Any, tuple[str, int, int, float], str]
SMOOTH, SMOOTH_UNITS = (("sgd", "lbfgs"), (100,), (6,), (1e-4,)), ("tanh", "logistic")


def kept_rows() -> pd.DataFrame:
    """Breast-cancer rows with two columns of categories."""
    rows = datasets.load_breast_cancer(as_frame=True).data.iloc[:KEPT_ROWS].copy()
    generator = np.random.default_rng(0)
    return rows.assign(sex=generator.choice(["f", "m"], len(rows)), site=generator.choice(list("abc"), len(rows)))


def nested(estimator: Any, rows: pd.DataFrame) -> Any:
    """The estimator behind three pipelines within one another: imputed and scaled numbers, encoded categories."""
    numbers = make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler())
    columns = compose.ColumnTransformer(
        [
            ("numbers", numbers, list(rows.columns[:-2])),
            ("categories", preprocessing.OneHotEncoder(), ["sex", "site"]),
        ]
    )
    return make_pipeline(make_pipeline(columns), make_pipeline(estimator))


def count_found(values: Any, known: Any, truth: Any) -> int:
    """Rows that are a true one in every known column, numbers to 1e-9 of their size."""

    def same(found: Any, true: Any) -> bool:
        return found == true if isinstance(true, str) else abs(found - true) <= 1e-9 * max(1.0, abs(true))

    columns = np.flatnonzero(known)
    return sum(any(all(same(row[c], true[c]) for c in columns) for true in truth) for row in values)


def keeping_table() -> None:
    rows = kept_rows()
    target = datasets.load_breast_cancer().target[:KEPT_ROWS]
    lines = []
    for estimator in KEEPING:
        fitted = nested(estimator, rows).fit(rows, target)
        kept = [found for step in walk(fitted) if (found := stored_rows(step)) is not None]
        name = type(estimator).__name__
        name = name if name != "Pipeline" else type(estimator.steps[0][1]).__name__
        if not kept:
            lines.append((name, "none", 0, 0))
        for each in kept:
            found = 0 if each.rows is None else count_found(each.rows.values, each.rows.known, rows.to_numpy(object))
            lines.append((name, f"{each.step.name}.{each.store.attribute}", each.count, found))
    table(("estimator", "kept in", "rows kept", "rows found"), lines)


def run_network(kind: Any, case: tuple[str, int, int, float], seed: int, activation: str = "relu") -> dict[str, Any]:
    """One network: how many rows came back, and how closely."""
    solver, neurons, count, alpha = case
    data = datasets.load_breast_cancer()
    chosen = np.random.default_rng(seed).permutation(len(data.data))[:count]
    rows, target = data.data[chosen], data.target[chosen]
    if kind is neural_network.MLPRegressor:
        target = preprocessing.scale(rows[:, 0])
    settings = {"learning_rate_init": 0.01, "max_iter": 500} if solver == "sgd" else {}
    settings |= {"hidden_layer_sizes": (neurons,), "activation": activation}
    network = kind(solver=solver, alpha=alpha, random_state=seed, **settings)
    model = make_pipeline(preprocessing.StandardScaler(), network).fit(rows, target)
    started = time.perf_counter()
    found = exhume.audit(model, truth=rows, budget_seconds=MAX_SECONDS)
    errors = [] if found.score is None else list(found.score.claimed_errors)
    certified = [] if found.result is None else found.result.certificate.predicted_errors
    return {
        "recovered": sum(error < 0.1 for error in errors),
        "below 1e-2": sum(error < 1e-2 for error in errors),
        "below 1e-3": sum(error < 1e-3 for error in errors),
        "below 1e-9": sum(error < 1e-9 for error in errors),
        "certified": sum(error < 0.1 for error in certified),
        "seconds": time.perf_counter() - started,
    }


def measured(wanted: list[Network]) -> list[list[dict[str, Any]]]:
    """Results of networks, each with every chosen seed; kept as soon as it is there."""
    done = files.read_json(STORE) if STORE.exists() else {}
    for seed, (kind, case, activation) in itertools.product(_seeds(), wanted):
        name = _name(kind, case, activation, seed)
        if name not in done:
            done[name] = run_network(kind, case, seed, activation)
            files.write_json(STORE, done)
            say(f"{name}: {done[name]}")
    return [[done[_name(*network, seed)] for seed in _seeds()] for network in wanted]


def _seeds() -> list[int]:
    return [seed for seed in SEEDS if str(seed) in os.environ.get("EXHUME_BENCH_SEEDS", "0,1,2")]


def _name(kind: Any, case: tuple[Any, ...], activation: str, seed: int) -> str:
    return f"{kind.__name__} {case} {seed}" if activation == "relu" else f"{kind.__name__} {activation} {case} {seed}"


def networks_table(wanted: list[Network]) -> None:
    lines = []
    for (kind, case, activation), results in zip(wanted, measured(wanted), strict=True):
        counts = [" ".join(str(each[name]) for each in results) for name in list(results[0])[:-1]]
        seconds = f"{statistics.median(each['seconds'] for each in results):.0f}"
        lines.append((kind.__name__, activation, *case, *counts, seconds))
    heads = ("estimator", "units", "solver", "neurons", "n", "alpha")
    table((*heads, "recovered", "below 1e-2", "below 1e-3", "below 1e-9", "certified", "seconds"), lines)


def main() -> None:
    warnings.filterwarnings("ignore")
    words = os.environ.get("EXHUME_BENCH_CASES", "kept,networks,smooth")
    if "kept" in words:
        keeping_table()
    if "networks" in words:
        networks_table([(kind, case, "relu") for case in itertools.product(*GRID) for kind in NETWORKS])
    if "smooth" in words:
        networks_table([(NETWORKS[0], case, units) for case in itertools.product(*SMOOTH) for units in SMOOTH_UNITS])
