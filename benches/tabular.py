"""Tabular data: scikit-learn records, drawn and standardised for each seed; counts values right to the last digit."""

import statistics

import exhume
from benches.problems import side_by_side, table
from exhume import activations, data
from exhume.scoring.records import as_records

SEEDS = 6
MAX_PASSES = 10_000
# data set, labels, n, p/dn; the first has one output, the second two
PROBLEMS = (("diabetes", "real", 6, 40), ("breast-cancer", "one-hot", 8, 4))
ACTIVATIONS = tuple(name for name in activations.names() if activations.get(name).identifies_norm)


def run(case: tuple[str, str, int, int, str, int]) -> tuple[str, bool, int, int, float]:
    name, labels, samples, ratio, activation, seed = case
    training = data.load(name, samples=samples, labels=labels, seed=seed)
    width = ratio * training.inputs.numel()
    victim = exhume.RandomFeatures(num_features=width, activation=activation, seed=seed)
    victim.fit(training.inputs, training.labels)
    result = exhume.reconstruct(victim.target(), num_samples=samples, seed=seed, max_passes=MAX_PASSES, method="exact")
    assert training.table is not None
    records = as_records(result, exhume.score(result, training.inputs), training.inputs, training.table)
    return result.certificate.verdict, result.signs_determined, records.values_right, records.values, result.passes


def main() -> None:
    cases = [(*problem, name, seed) for problem in PROBLEMS for name in ACTIVATIONS for seed in range(SEEDS)]
    results = dict(zip(cases, side_by_side(run, cases), strict=True))
    rows = []
    for problem in PROBLEMS:
        for name in ACTIVATIONS:
            verdicts, signs, right, values, passes = zip(
                *(results[(*problem, name, seed)] for seed in range(SEEDS)), strict=True
            )
            exact = f"{verdicts.count('exact')} of {SEEDS}"
            decided = f"{sum(signs)} of {SEEDS}"
            rows.append(
                (*problem, name, exact, decided, f"{sum(right)} of {sum(values)}", f"{statistics.median(passes):.0f}")
            )
    columns = ("data", "labels", "n", "p/dn", "activation", "exact", "signs decided", "values right", "median passes")
    table(columns, rows)
