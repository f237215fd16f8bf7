"""Estimating the number of samples: sphere d=30, n = 5, 10, 20 at p = 3dn, 5 seeds each."""

import exhume
from benches.problems import side_by_side, signed_error, sphere_problem, table


def run(case: tuple[int, int]) -> tuple[int, int, int, float, float]:
    samples, seed = case
    training, victim = sphere_problem(30, samples, 3, seed)
    result = exhume.reconstruct(victim.target(), num_samples=None, seed=seed, method="exact")
    return samples, seed, result.samples.shape[0], signed_error(result, training), result.passes


def main() -> None:
    results = side_by_side(run, [(samples, seed) for samples in (5, 10, 20) for seed in range(5)])
    rows = [(n, seed, found, f"{error:.1e}", f"{passes:.0f}") for n, seed, found, error, passes in results]
    table(("n", "seed", "estimated", "signed error", "passes"), rows)
    print(f"\nright: {sum(row[0] == row[2] for row in results)} of {len(results)}")
