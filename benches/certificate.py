"""The certificate on 50 problems: p from 0.5dn to 5dn, with and without noise on theta, right and wrong n."""

import itertools
import sys

import torch

import exhume
from benches.problems import side_by_side, sphere_problem, table
from exhume.support.randomness import generator_for

DIM, SAMPLES = 20, 10
CASES = [
    *((ratio, 0.0, 0, seed) for ratio, seed in itertools.product((0.5, 0.8, 1.5, 2, 3, 5), range(3))),
    *((ratio, noise, 0, seed) for ratio, noise, seed in itertools.product((2, 3, 5), (1e-4, 1e-3, 1e-2), range(2))),
    *((ratio, 0.0, more, seed) for ratio, more, seed in itertools.product((3, 5), (-1, 2), range(3))),
    *((5, 0.05, 0, seed) for seed in range(2)),
]


def run(case: tuple[float, float, int, int]) -> tuple[str, float | None, float]:
    """The verdict, the predicted and the true error of one problem (signed; a missing sample counts 1)."""
    ratio, noise, more, seed = case
    training, victim = sphere_problem(DIM, SAMPLES, ratio, 1000 + seed)
    theta = victim.theta_
    wobble = torch.randn(theta.shape, generator=generator_for(seed, "noise on theta"))
    noisy = theta + noise * theta.norm() * wobble / wobble.norm()
    target = exhume.Target(victim.feature_map_, noisy)
    result = exhume.reconstruct(
        target, num_samples=SAMPLES + more, seed=seed, allow_underdetermined=True, max_starts=4, method="exact"
    )
    judged = exhume.score(result, training.inputs)
    certificate = result.certificate
    print(case, certificate.verdict, certificate.predicted_error, judged.error, result.stop.value, file=sys.stderr)
    return certificate.verdict, certificate.predicted_error, judged.error


def main() -> None:
    results = side_by_side(run, CASES)
    rows = []
    for (ratio, noise, more, _), (verdict, predicted, true) in zip(CASES, results, strict=True):
        rows.append(
            (ratio, noise, f"{more:+d}", verdict, "-" if predicted is None else f"{predicted:.1e}", f"{true:.1e}")
        )
    table(("p/dn", "noise", "rows - n", "verdict", "predicted error", "true error"), rows)
    wrong = sum(verdict == "exact" and true > 1e-3 for verdict, _, true in results)
    ratios = [predicted / true for verdict, predicted, true in results if verdict != "failed" and predicted]
    near = sum(1 / 3 <= ratio <= 3 for ratio in ratios)
    print(f"\n{len(results)} problems; called exact with a true error above 1e-3: {wrong}")
    print(f"called exact or approximate: {len(ratios)}; predicted error within a factor of 3 of the true one: {near}")
