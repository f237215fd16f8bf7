"""Verdicts on trained two-layer networks compared with the truth, from just above the wall to well beyond it."""

import itertools
from typing import Any

import torch

import exhume
from benches.problems import side_by_side, table
from exhume import data, networks
from exhume.victims import train
from exhume.victims.trained_network import target

# The attack's own limits were set on seeds 0 to 2.
DIM, SEEDS, RATIOS = 20, range(3, 6), (1.3, 1.6, 2, 3, 6)
SIZES = ((6, 3), (12, 4))  # samples, outputs
MOST_PASSES = 6000


def attack(case: Any) -> tuple[float, str, str, float, float | None]:
    seed, ratio, (count, outputs), activation = case
    training = data.load("sphere", dim=DIM, samples=count, seed=seed)
    labels = torch.randn((count, outputs), generator=torch.Generator().manual_seed(seed + 50))
    network = networks.TwoLayer(DIM, int(ratio * DIM * count / outputs) + 1, outputs, activation, seed=seed)
    trained = train(network, training.inputs, labels, stable=True, max_steps=20_000)
    victim = target(trained, knowledge=exhume.Knowledge(num_samples=count))
    result = exhume.reconstruct(victim, max_starts=3, max_passes=MOST_PASSES, method="exact")
    judged = exhume.score(result, training.inputs)
    error = judged.claimed_error
    return ratio, activation, result.certificate.verdict, error, result.certificate.predicted_error


def main() -> None:
    cases = list(itertools.product(SEEDS, RATIOS, SIZES, ("relu", "gelu")))
    results = side_by_side(attack, cases)
    rows = []
    for ratio in RATIOS:
        here = [each for each in results if each[0] == ratio]
        trusted = [(error, predicted or 0.0) for _, _, verdict, error, predicted in here if verdict != "failed"]
        exact = [error for _, _, verdict, error, _ in here if verdict == "exact"]
        rows.append(
            (
                ratio,
                len(here),
                len(exact),
                sum(error > 1e-3 for error in exact),
                len(trusted) - len(exact),
                sum(predicted / 3 < error < 3 * predicted for error, predicted in trusted),
                f"{max((error for error, _ in trusted), default=float('nan')):.3f}",
            )
        )
    columns = (
        "p_L/dn",
        "problems",
        "exact",
        "wrongly so",
        "approximate",
        "within 3x of the bar",
        "worst trusted error",
    )
    table(columns, rows)
