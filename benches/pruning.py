"""Pruned models, Figure 16: sphere d=30, n=20; success of exact against p', the remaining features; 8 seeds."""

import statistics
import sys

import exhume
from benches.problems import side_by_side, signed_error, sphere_problem, table

DIM, SAMPLES, SEEDS = 30, 20, 8
SURVIVING = (1.5, 1.6, 1.75, 2, 3)  # p' / dn
KINDS = (("whole", 1.0, "obs"), ("obs", 0.5, "obs"), ("obs", 0.25, "obs"), ("magnitude", 0.5, "magnitude"))
SOLVED_BELOW, MAX_PASSES = 1e-3, 8_000
DESCENT_SURVIVING, DESCENT_SEEDS, DESCENT_STEPS = (3, 5), 8, 5_000

Kind = tuple[str, float, str]
Case = tuple[str, float, Kind, int]


def run(case: Case) -> tuple[Case, float, float, float]:
    """Mean squared error on the training labels, the attack's error and its passes."""
    method, surviving, (name, keep, how), seed = case
    training, victim = sphere_problem(DIM, SAMPLES, surviving / keep, seed)
    if name != "whole":
        victim = victim.prune(training.inputs, training.labels, keep, how)
    loss = float(((victim.predict(training.inputs) - training.labels.double().numpy()) ** 2).mean())
    options = {"max_passes": MAX_PASSES} if method == "exact" else {"max_steps": DESCENT_STEPS}
    result = exhume.reconstruct(victim.target(), num_samples=SAMPLES, method=method, seed=seed, **options)
    error = signed_error(result, training)
    words = f"{method} p' = {surviving}dn, {name} {keep}, seed {seed}: {error:.1e}, {result.seconds:.1f} s"
    print(words, file=sys.stderr, flush=True)
    return case, loss, error, result.passes


def main() -> None:
    cases = [("exact", ratio, kind, seed) for ratio in SURVIVING for kind in KINDS for seed in range(SEEDS)]
    cases += [
        ("descent", ratio, kind, seed)
        for ratio in DESCENT_SURVIVING
        for kind in KINDS[:2]
        for seed in range(DESCENT_SEEDS)
    ]
    results = side_by_side(run, cases)

    def column(method: str, surviving: float, kind: Kind, number: int) -> list[float]:
        return [row[number] for row in results if row[0][:3] == (method, surviving, kind)]

    def solved(*case: str | float | Kind) -> str:
        errors, passes = column(*case, 2), column(*case, 3)
        return f"{sum(error < SOLVED_BELOW for error in errors)} of {len(errors)} ({statistics.median(passes):.0f})"

    heads = [name if name == "whole" else f"{name}, p' = p/{1 / keep:g}" for name, keep, _ in KINDS]
    print(f"exact: share with a signed error below {SOLVED_BELOW} within {MAX_PASSES} passes (median passes)\n")
    rows = [(ratio, *(solved("exact", ratio, kind) for kind in KINDS)) for ratio in SURVIVING]
    losses = [[loss for ratio in SURVIVING for loss in column("exact", ratio, kind, 1)] for kind in KINDS]
    rows.append(("largest training loss", *(f"{max(values):.0e}" for values in losses)))
    table(("p'/dn", *heads), rows)
    print(f"\ndescent: median error up to sign of {DESCENT_SEEDS} seeds after {DESCENT_STEPS} steps\n")
    medians = [
        (ratio, *(f"{statistics.median(column('descent', ratio, kind, 2)):.2f}" for kind in KINDS[:2]))
        for ratio in DESCENT_SURVIVING
    ]
    table(("p'/dn", *heads[:2]), medians)
