"""The certificate on 50 mixed problems: p from 0.5dn to 5dn, with and without noise on theta, right and wrong n."""

import itertools
import sys
from concurrent.futures import ProcessPoolExecutor

import torch

import exhume
from exhume import data
from exhume.randomness import generator_for

DIM, SAMPLES = 20, 10
CASES = [
    *((ratio, 0.0, 0, seed) for ratio, seed in itertools.product((0.5, 0.8, 1.5, 2, 3, 5), range(3))),
    *((ratio, noise, 0, seed) for ratio, noise, seed in itertools.product((2, 3, 5), (1e-4, 1e-3, 1e-2), range(2))),
    *((ratio, 0.0, more, seed) for ratio, more, seed in itertools.product((3, 5), (-1, 2), range(3))),
    *((5, 0.05, 0, seed) for seed in range(2)),
]


def run(case: tuple[float, float, int, int]) -> dict[str, object]:
    """One problem: the verdict, the predicted and the true error (signed, missing samples counted with 1)."""
    torch.set_num_threads(1)
    ratio, noise, more, seed = case
    training = data.load("sphere", dim=DIM, samples=SAMPLES, seed=1000 + seed)
    width = round(ratio * DIM * SAMPLES)
    victim = exhume.RandomFeatures(num_features=width, seed=1000 + seed).fit(training.inputs, training.labels)
    theta = victim.theta_
    wobble = torch.randn(theta.shape, generator=generator_for(seed, "noise on theta"))
    noisy = theta + noise * theta.norm() * wobble / wobble.norm()
    target = exhume.Target(victim.feature_map_, noisy)
    result = exhume.reconstruct(target, num_samples=SAMPLES + more, seed=seed, allow_underdetermined=True, max_starts=4)
    judged = exhume.score(result, training.inputs)
    certificate = result.certificate
    print(case, certificate.verdict, certificate.predicted_error, judged.error, result.stop.value, file=sys.stderr)
    return {
        "case": case,
        "verdict": certificate.verdict,
        "predicted": certificate.predicted_error,
        "true": judged.error,
    }


def main() -> None:
    with ProcessPoolExecutor(2) as pool:
        rows = list(pool.map(run, CASES))
    print("| p/dn | noise | rows - n | verdict | predicted error | true error |\n|---|---|---|---|---|---|")
    for row in rows:
        ratio, noise, more, _ = row["case"]  # type: ignore[misc]
        predicted = "-" if row["predicted"] is None else f"{row['predicted']:.1e}"
        print(f"| {ratio} | {noise} | {more:+d} | {row['verdict']} | {predicted} | {row['true']:.1e} |")
    wrong = [row for row in rows if row["verdict"] == "exact" and row["true"] > 1e-3]  # type: ignore[operator]
    judged = [row for row in rows if row["verdict"] != "failed"]
    near = [row for row in judged if 1 / 3 <= row["predicted"] / row["true"] <= 3]  # type: ignore[operator]
    print(f"\n{len(rows)} problems; called exact with a true error above 1e-3: {len(wrong)}")
    print(
        f"called exact or approximate: {len(judged)}; predicted error within a factor of 3 of the true one: {len(near)}"
    )
