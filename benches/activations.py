"""Every activation: sphere d=50, n=10, p=5dn, 10 seeds; signed error where signs are determined, else up to sign."""

import statistics

import exhume
from benches.problems import side_by_side, signed_error, sphere_problem, table
from exhume import activations

SEEDS = 10


def run(case: tuple[str, int]) -> tuple[str, float, bool, bool, float]:
    name, seed = case
    training, victim = sphere_problem(50, 10, 5, seed, activation=name)
    result = exhume.reconstruct(victim.target(), num_samples=10, seed=seed, method="exact")
    return name, signed_error(result, training), result.signs_determined, result.norms_determined, result.passes


def main() -> None:
    results = side_by_side(run, [(name, seed) for name in activations.names() for seed in range(SEEDS)])
    rows = []
    for name in activations.names():
        errors, signs, norms, passes = zip(*(row[1:] for row in results if row[0] == name), strict=True)
        solved = f"{sum(error < 1e-3 for error in errors)} of {SEEDS}"
        words = ("yes" if all(signs) else "no", "yes" if all(norms) else "no")
        rows.append((name, solved, f"{max(errors):.1e}", *words, f"{statistics.median(passes):.0f}"))
    table(("activation", "error < 1e-3", "worst error", "signs", "norms", "median passes"), rows)
