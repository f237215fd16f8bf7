"""Success against p/dn, both methods on the same problems: sphere d=30, n=20; exact on 10 seeds, descent on 3.

Below 1.5dn, where most attacks spend all of their starts, exact runs on 5 seeds.
"""

import statistics
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import exhume
from benches.problems import FIGURES, side_by_side, signed_error, sphere_problem, table

DIM, SAMPLES = 30, 20
RATIOS = (1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2, 3, 5)
SEEDS, SEEDS_NEAR_THE_WALL, DESCENT_SEEDS = 10, 5, 3
SOLVED_BELOW = 1e-3


def run(case: tuple[str, float, int]) -> tuple[str, float, float, float]:
    method, ratio, seed = case
    training, victim = sphere_problem(DIM, SAMPLES, ratio, seed)
    result = exhume.reconstruct(victim.target(), num_samples=SAMPLES, method=method, seed=seed)
    error = signed_error(result, training)
    print(f"{method} p = {ratio}dn seed {seed}: {error:.1e}, {result.seconds:.1f} s", file=sys.stderr, flush=True)
    return method, ratio, error, result.passes


def main() -> None:
    cases = [
        ("exact", ratio, seed)
        for ratio in reversed(RATIOS)
        for seed in range(SEEDS if ratio >= 1.5 else SEEDS_NEAR_THE_WALL)
    ]
    cases += [("descent", ratio, seed) for ratio in RATIOS for seed in range(DESCENT_SEEDS)]
    results = side_by_side(run, cases)
    rows, curves = [], {}
    for method in ("exact", "descent"):
        for ratio in RATIOS:
            errors, passes = zip(*(row[2:] for row in results if row[:2] == (method, ratio)), strict=True)
            solved = sum(error < SOLVED_BELOW for error in errors)
            curves.setdefault(method, []).append(errors)
            rows.append(
                (
                    method,
                    ratio,
                    f"{solved} of {len(errors)}",
                    f"{statistics.median(errors):.1e}",
                    f"{statistics.median(passes):.0f}",
                )
            )
    columns = ("method", "p/dn", f"error < {SOLVED_BELOW}", "median error", "median passes")
    table(columns, rows)
    print("\nexact: signed error; descent: up to sign (the paper's rho)")
    draw(curves)


def draw(curves: dict[str, list[tuple[float, ...]]]) -> None:
    """Draws the error of every seed and the share of solved problems against p/dn."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    names = {"exact": "exact (this library), signed", "descent": "descent (the paper's), up to sign"}
    for method, colour in (("exact", "tab:blue"), ("descent", "tab:red")):
        for ratio, errors in zip(RATIOS, curves[method], strict=True):
            left.scatter([ratio] * len(errors), errors, s=9, color=colour, alpha=0.5)
        left.plot(RATIOS, [statistics.median(errors) for errors in curves[method]], color=colour, label=names[method])
        share = [sum(error < SOLVED_BELOW for error in errors) / len(errors) for errors in curves[method]]
        right.plot(RATIOS, share, "o-", color=colour, label=names[method])
    left.set(yscale="log", xlabel="p / (d n)", ylabel="error", title="error of every seed, and the median")
    right.set(xlabel="p / (d n)", ylabel="share solved", title=f"share with error below {SOLVED_BELOW}")
    for axis in (left, right):
        axis.axvline(1, color="grey", linestyle=":", linewidth=1)
    left.legend(fontsize=7)
    FIGURES.mkdir(exist_ok=True)
    figure.savefig(FIGURES / "success_curve.png", dpi=110)
    print(f"picture: {FIGURES / 'success_curve.png'}")
