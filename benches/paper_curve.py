"""The paper's curve with the paper's attack: sphere d=30, n=20, error up to sign at p = 2dn and 20dn, 5 seeds."""

import statistics
import sys

import exhume
from benches.problems import side_by_side, sphere_problem, table

DIM, SAMPLES, SEEDS = 30, 20, 5


def run(case: tuple[int, int]) -> tuple[int, float, int, float]:
    """Error up to sign, steps and seconds of one descent run."""
    ratio, seed = case
    training, victim = sphere_problem(DIM, SAMPLES, ratio, seed)
    result = exhume.reconstruct(victim.target(), num_samples=SAMPLES, method="descent", seed=seed)
    error = exhume.score(result, training.inputs).error_up_to_sign
    print(f"p = {ratio}dn, seed {seed}: {error:.4f} after {result.steps} steps", file=sys.stderr, flush=True)
    return ratio, error, result.steps, result.seconds


def main() -> None:
    results = side_by_side(run, [(ratio, seed) for ratio in (2, 20) for seed in range(SEEDS)])
    rows = []
    for ratio in (2, 20):
        errors, steps, seconds = zip(*(row[1:] for row in results if row[0] == ratio), strict=True)
        listed = " ".join(f"{error:.3f}" for error in errors)
        rows.append((ratio, f"{statistics.median(errors):.3f}", listed, max(steps), f"{max(seconds):.0f}"))
    table(("p/dn", "median error up to sign", "all", "most steps", "most seconds"), rows)
