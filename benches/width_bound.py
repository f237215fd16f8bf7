"""The proven and the measured width: tanh, n samples in r dimensions, all coefficients -1 or +1; 4 seeds."""

import math

import torch

import exhume
from benches.problems import say, table
from exhume import data
from exhume.law import sufficient_width

ACTIVATION = "tanh"
SIZES = ((4, 2), (8, 2), (16, 2), (32, 2), (4, 3), (8, 3), (16, 3))  # r, n
RATIOS = (1.25, 1.5, 2, 3, 4, 6)  # p / rn
SEEDS = 4
APART = 0.8  # error and margin of the bound, and margin of the data
SOLVED_BELOW = 1e-3
ATTACKED_BELOW = 700_000  # proven widths below this are attacked as well


def separated(dim: int, samples: int, seed: int) -> torch.Tensor:
    """Sphere data of the first seed for which all samples are at least APART from each other, up to sign."""
    for trial in range(1000 * seed, 1000 * (seed + 1)):
        inputs = data.load("sphere", dim=dim, samples=samples, seed=trial).inputs.double()
        cosines = (inputs @ inputs.T / dim).fill_diagonal_(0.0).abs()
        if float(cosines.max()) <= 1.0 - APART**2 / 2.0:
            return inputs
    raise RuntimeError(f"no {samples} samples {APART} apart in {dim} dimensions")


def attack(dim: int, samples: int, width: int, seed: int) -> float:
    """Error up to sign of the exact attack with known norm, on labels that make every coefficient -1 or +1."""
    inputs = separated(dim, samples, seed)
    coefficients = torch.randn(samples, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).sign()
    victim = exhume.RandomFeatures(num_features=width, activation=ACTIVATION, seed=seed, dtype="float64")
    features = victim.fit(inputs, coefficients).feature_map_.forward(inputs)  # (n, p)
    target = victim.fit(inputs, features @ (features.T @ coefficients)).target(
        knowledge=exhume.Knowledge(norm=math.sqrt(dim))
    )
    result = exhume.reconstruct(target, num_samples=samples, seed=seed, max_passes=4000, method="exact")
    error = exhume.score(result, inputs).error_up_to_sign
    say(f"r = {dim}, n = {samples}, p = {width}, seed {seed}: {error:.1e}, {result.seconds:.1f} s")
    return float(error)


def measured(dim: int, samples: int) -> float:
    """The smallest ratio such that every seed is solved at this ratio and at all larger ones."""
    threshold = math.nan
    for ratio in reversed(RATIOS):
        width = math.ceil(ratio * dim * samples)
        if not all(attack(dim, samples, width, seed) < SOLVED_BELOW for seed in range(SEEDS)):
            break
        threshold = ratio
    return threshold


def main() -> None:
    rows = []
    for dim, samples in SIZES:
        ratio = measured(dim, samples)
        unknowns = dim * samples
        bound = sufficient_width(dim, samples, error=APART, margin=APART, activation=ACTIVATION)
        reached = attack(dim, samples, bound.width, 0) if bound.width <= ATTACKED_BELOW else None
        rows.append(
            (
                dim,
                samples,
                unknowns,
                f"{ratio * unknowns:.0f} ({ratio} rn)",
                f"{bound.width:,}",
                f"{bound.width / (ratio * unknowns):,.0f}",
                f"{bound.hoeffding_width:,}",
                "-" if reached is None else f"{reached:.0e}",
            )
        )
    columns = ("r", "n", "rn", "measured p", "proven p", "proven / measured", "proven by Hoeffding alone")
    table((*columns, "error at proven p"), rows)
    print(f"\nproven: error and margin {APART}, delta 0.01; measured: error < {SOLVED_BELOW} on all of {SEEDS} seeds")
