"""Logistic loss, Figure 8 left: sphere d=100, n=100, sign labels, the paper's 10^6 steps of size 1e-3; 2 seeds."""

import statistics
import sys
import time

import exhume
from benches.problems import side_by_side, table
from exhume import data

DIM, SAMPLES, SEEDS = 100, 100, 2
RATIOS = (0.5, 3, 10)  # p / dn; the first is below the wall, where the weights do not determine the samples
METHODS = {"exact": {"max_passes": 10_000}, "descent": {"max_steps": 300}}


def run(case: tuple[str, float, int]) -> tuple[str, float, float, float, float, float, float, float, str]:
    method, ratio, seed = case
    training = data.load("sphere", dim=DIM, samples=SAMPLES, labels="sign", seed=seed)
    victim = exhume.RandomFeatures(num_features=round(ratio * DIM * SAMPLES), loss="logistic", seed=seed)
    started = time.perf_counter()
    victim.fit(training.inputs, training.labels)
    trained = time.perf_counter() - started
    result = exhume.reconstruct(
        victim.target(), num_samples=SAMPLES, method=method, seed=seed, allow_underdetermined=True, **METHODS[method]
    )
    judged = exhume.score(result, training.inputs)
    error = judged.error if method == "exact" else judged.error_up_to_sign
    words = f"{method} p = {ratio}dn seed {seed}: {error:.1e}, trained {trained:.0f} s, attacked {result.seconds:.0f} s"
    print(words, result.stop.name, file=sys.stderr, flush=True)
    verdict = result.certificate.verdict
    return (
        method,
        ratio,
        victim.training_loss_,
        error,
        judged.recovered,
        result.passes,
        trained,
        result.seconds,
        verdict,
    )


def main() -> None:
    results = side_by_side(
        run, [(method, ratio, seed) for method in METHODS for ratio in RATIOS for seed in range(SEEDS)]
    )
    rows = []
    for method in METHODS:
        for ratio in RATIOS:
            mine = [row[2:] for row in results if row[:2] == (method, ratio)]
            losses, errors, recovered, passes, trained, seconds, verdicts = zip(*mine, strict=True)
            rows.append(
                (
                    method,
                    ratio,
                    f"{statistics.mean(losses):.1e}",
                    ", ".join(f"{error:.1e}" for error in errors),
                    ", ".join(f"{count} of {SAMPLES}" for count in recovered) if method == "exact" else "-",
                    f"{statistics.median(passes):.0f}",
                    f"{statistics.median(trained):.0f}",
                    f"{statistics.median(seconds):.0f}",
                    ", ".join(verdicts),
                )
            )
    columns = (
        "method",
        "p/dn",
        "training loss",
        "error of every seed",
        "recovered",
        "passes",
        "training s",
        "attack s",
    )
    table((*columns, "verdicts"), rows)
    print("\nexact: signed error; descent: up to sign (the paper's rho), 300 steps at most")
