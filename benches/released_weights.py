"""Error and error bars of exact on rounded and regularised weights: sphere d=30, n=20, p=5dn, medians of 3 seeds."""

import statistics

import torch

import exhume
from benches.problems import side_by_side, signed_error, sphere_problem, table

CASES = {
    "float64": {"dtype": "float64"},
    "float32": {},
    "bfloat16": {"rounding": torch.bfloat16},
    "float16": {"rounding": torch.float16},
    "ridge 1": {"ridge": 1.0},
    "ridge 100": {"ridge": 100.0},
}


def run(case: tuple[str, int]) -> tuple[str, float, float | None, str]:
    name, seed = case
    settings = dict(CASES[name])
    rounding = settings.pop("rounding", None)
    training, victim = sphere_problem(30, 20, 5, seed, **settings)
    theta = victim.theta_ if rounding is None else victim.theta_.to(rounding).float()
    result = exhume.reconstruct(exhume.Target(victim.feature_map_, theta), num_samples=20, seed=seed, method="exact")
    return name, signed_error(result, training), result.certificate.predicted_error, result.certificate.verdict


def main() -> None:
    results = side_by_side(run, [(name, seed) for name in CASES for seed in range(3)])
    rows = []
    for name in CASES:
        mine = [row for row in results if row[0] == name]
        predicted = [row[2] for row in mine if row[2] is not None]
        middle = f"{statistics.median(predicted):.1e}" if predicted else "-"
        verdicts = ", ".join(row[3] for row in mine)
        rows.append((name, f"{statistics.median(row[1] for row in mine):.1e}", middle, verdicts))
    table(("weights", "signed error", "predicted error", "verdicts"), rows)
