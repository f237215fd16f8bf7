"""The informed adversary knows all samples but a few: the wall falls to d times the number of unknown samples."""

import math

import exhume
from benches.problems import sphere_problem, table

SEEDS = 4
# Activation, d, n, unknown samples, p: p = 2d for the last one.
CASES = [(name, dim, 20, 1, 2 * dim) for name in ("gelu", "relu+tanh", "tanh", "softplus") for dim in (30, 100, 300)]
CASES += [("relu", dim, 20, 1, round(ratio * dim)) for ratio in (2, 2.2, 2.5, 3) for dim in (30, 100, 300)]
CASES += [("relu", 30, 20, unknown, 2 * 30 * unknown + 20) for unknown in (2, 5, 10)]


def main() -> None:
    rows = []
    for name, dim, samples, unknown, width in CASES:
        found = []
        for seed in range(SEEDS):
            training, victim = sphere_problem(dim, samples, width / (dim * samples), seed, activation=name)
            knowledge = exhume.Knowledge(num_samples=samples, samples=training.inputs[unknown:], norm=math.sqrt(dim))
            result = exhume.reconstruct(victim.target(knowledge=knowledge), method="exact")
            judged = exhume.score(result, training.inputs)
            error = judged.claimed_error
            found.append((error, result.certificate, result.passes))
        certificate = found[0][1]
        rows.append(
            (
                name,
                dim,
                samples,
                unknown,
                width,
                f"{certificate.equations} / {certificate.unknowns}",
                f"{sum(error < 1e-3 for error, _, _ in found)}/{SEEDS}",
                f"{sorted(error for error, _, _ in found)[SEEDS // 2]:.0e}",
                ", ".join(each.verdict for _, each, _ in found),
                f"{sum(passes for _, _, passes in found) / SEEDS:.0f}",
            )
        )
        print(rows[-1], flush=True)
    columns = (
        "activation",
        "d",
        "n",
        "unknown",
        "p",
        "equations / unknowns",
        "error < 1e-3",
        "error",
        "verdicts",
        "passes",
    )
    table(columns, rows)
