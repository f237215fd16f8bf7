"""Sphere d = n = 100: exact at p = 3dn within 800 passes, and the success curve from 2dn to 3dn; 5 seeds each."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import exhume
from benches.problems import FIGURES, say, side_by_side, signed_error, sphere_problem, table

DIM = SAMPLES = 100
HEADLINE, CURVE, SEEDS = 3, (2, 2.25, 2.5), 5
# Limit of passes at 3dn; the other ratios may use up to the cap.
LIMIT, CAP = 800, 12_000
SOLVED_BELOW = 1e-3

Row = tuple[float, int, float, float, float, str]


def run(case: tuple[int, int, float, int]) -> Row:
    """One attack: ratio, seed, signed error, passes, seconds and verdict."""
    dim, samples, ratio, seed = case
    training, victim = sphere_problem(dim, samples, ratio, seed)
    result = exhume.reconstruct(victim.target(), num_samples=samples, seed=seed, max_passes=CAP, method="exact")
    error, verdict = signed_error(result, training), result.certificate.verdict
    say(f"p = {ratio}dn seed {seed}: {error:.1e}, {verdict}, {result.passes:.0f} passes, {result.seconds:.0f} s")
    return ratio, seed, error, result.passes, result.seconds, verdict


def main(dim: int = DIM, samples: int = SAMPLES, seeds: int = SEEDS, curve: Sequence[float] = CURVE) -> None:
    ratios = (*curve, HEADLINE)
    cases = [(dim, samples, ratio, seed) for ratio in reversed(ratios) for seed in range(seeds)]
    results: list[Row] = side_by_side(run, cases)
    headline = [row for row in results if row[0] == HEADLINE]
    rows = [
        (seed, f"{error:.1e}", verdict, f"{passes:.0f}", f"{seconds:.0f}", "yes" if _within(error, passes) else "no")
        for _, seed, error, passes, seconds, verdict in headline
    ]
    table(("seed", "signed error", "verdict", "passes", "seconds", f"solved in {LIMIT} passes"), rows)
    print()
    rows = []
    for ratio in ratios:
        _, _, errors, passes, seconds, verdicts = zip(*(row for row in results if row[0] == ratio), strict=True)
        rows.append(
            (
                ratio,
                f"{sum(error < SOLVED_BELOW for error in errors)} of {len(errors)}",
                f"{verdicts.count('exact')} of {len(errors)}",
                f"{statistics.median(errors):.1e}",
                f"{statistics.median(passes):.0f}",
                f"{max(passes):.0f}",
                f"{statistics.median(seconds):.0f}",
            )
        )
    columns = ("p/dn", f"error < {SOLVED_BELOW}", "called exact", "median error", "median passes", "most passes")
    table((*columns, "median seconds"), rows)
    print(f"\nat most {CAP} passes of the search; two attacks at a time, of one thread each")
    draw(results, ratios, f"sphere d = {dim}, n = {samples}")


def draw(results: Sequence[Row], ratios: Sequence[float], title: str) -> None:
    """Draws the passes of every seed and the share of solved problems against p/dn."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for solved, colour, words in ((True, "tab:blue", "solved"), (False, "tab:red", "not solved")):
        kept = [row for row in results if (row[2] < SOLVED_BELOW) == solved]
        left.scatter([row[0] for row in kept], [row[3] for row in kept], s=14, color=colour, label=words)
    left.axhline(LIMIT, color="grey", linestyle=":", linewidth=1)
    left.set(yscale="log", xlabel="p / (d n)", ylabel="feature passes", title=title)
    left.legend(fontsize=7)
    errors = [[row[2] for row in results if row[0] == ratio] for ratio in ratios]
    right.plot(ratios, [sum(error < SOLVED_BELOW for error in each) / len(each) for each in errors], "o-")
    right.set(xlabel="p / (d n)", ylabel="share solved", ylim=(-0.05, 1.05), title=f"error below {SOLVED_BELOW}")
    FIGURES.mkdir(exist_ok=True)
    figure.savefig(FIGURES / "sphere100.png", dpi=110)
    print(f"picture: {FIGURES / 'sphere100.png'}")


def _within(error: float, passes: float) -> bool:
    return error < SOLVED_BELOW and passes <= LIMIT
