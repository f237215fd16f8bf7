"""The wall in a subspace: data in r of 200 dimensions, random features; success against p/(rn) for several r."""

import math

import torch

import exhume
from benches.problems import say, side_by_side, table

DIM, SAMPLES, SEEDS = 200, 20, 4
DIMS = (5, 10, 20, 40)
RATIOS = (1.25, 1.5, 1.75, 2.0, 2.5, 3.0)


def problem(dim: int, width: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, exhume.RandomFeatures]:
    """Samples of norm sqrt(d) in a random subspace, its basis, and a victim trained on random signs."""
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn((DIM, dim), generator=generator))[0].T
    inputs = torch.randn((SAMPLES, dim), generator=generator) @ basis
    inputs *= math.sqrt(DIM) / torch.linalg.vector_norm(inputs, dim=1, keepdim=True)
    labels = torch.randint(0, 2, (SAMPLES,), generator=generator) * 2.0 - 1
    return inputs, basis, exhume.RandomFeatures(num_features=width, seed=seed).fit(inputs, labels)


def attacked(case: tuple[int, float, int]) -> tuple[float, str, float]:
    """Error, verdict and passes of one attack with the subspace given, at p = ratio r n."""
    dim, ratio, seed = case
    inputs, basis, victim = problem(dim, round(ratio * dim * SAMPLES), seed)
    known = exhume.Knowledge(num_samples=SAMPLES, label_alphabet="signs", subspace=basis)
    result = exhume.reconstruct(victim.target(knowledge=known), method="subspace", max_starts=4)
    return exhume.score(result, inputs).error, result.certificate.verdict, result.passes


def main() -> None:
    rows = []
    for dim in DIMS:
        for ratio in RATIOS:
            found = side_by_side(attacked, [(dim, ratio, seed) for seed in range(SEEDS)])
            rows.append(
                (
                    dim,
                    ratio,
                    round(ratio * dim * SAMPLES),
                    f"{ratio * dim / DIM:.3f}",
                    f"{sum(error < 1e-3 for error, _, _ in found)}/{SEEDS}",
                    f"{sum(error for error, _, _ in found) / SEEDS:.1e}",
                    sum(verdict != "failed" and error > 0.1 for error, verdict, _ in found),
                    f"{sum(passes for _, _, passes in found) / SEEDS:.0f}",
                )
            )
            say(str(rows[-1]))
    table(("r", "p/(rn)", "p", "p/(dn)", "error < 1e-3", "mean error", "wrongly trusted", "passes"), rows)
