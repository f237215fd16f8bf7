"""The law's curve with the law's own attack: sphere d=30, n=20, error up to sign at p = 2dn and 20dn, 5 seeds."""

import statistics
import sys
from concurrent.futures import ProcessPoolExecutor

import torch

import exhume
from exhume import data

DIM, SAMPLES, SEEDS = 30, 20, 5


def run(case: tuple[int, int]) -> tuple[float, int, float]:
    """Error up to sign, steps and seconds of one descent."""
    torch.set_num_threads(1)
    ratio, seed = case
    training = data.load("sphere", dim=DIM, samples=SAMPLES, seed=seed)
    victim = exhume.RandomFeatures(num_features=ratio * DIM * SAMPLES, seed=seed).fit(training.inputs, training.labels)
    result = exhume.reconstruct(victim.target(), method="descent", seed=seed)
    judged = exhume.score(result, training.inputs)
    print(f"p = {ratio}dn, seed {seed}: {judged.error_up_to_sign:.4f} after {result.steps} steps", file=sys.stderr)
    return judged.error_up_to_sign, result.steps, result.seconds


def main() -> None:
    print("| p/dn | median error up to sign | all | steps | seconds |\n|---|---|---|---|---|")
    with ProcessPoolExecutor(2) as pool:
        for ratio in (2, 20):
            errors, steps, seconds = zip(*pool.map(run, [(ratio, seed) for seed in range(SEEDS)]), strict=True)
            listed = " ".join(f"{error:.3f}" for error in errors)
            print(
                f"| {ratio} | {statistics.median(errors):.3f} | {listed} | {max(steps)} | {max(seconds):.0f} |",
                flush=True,
            )
