"""The certificate compared with the truth on a thousand mixed problems, and how far its error bars hold.

`python -m benches mixed_certificates` goes on where it was interrupted: the numbers of every problem are kept in
figs/. Problems are in random order; EXHUME_BENCH_PROBLEMS takes the first so many of them. With EXHUME_RECORD=1 the
plot goes into the documentation too.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import exhume
from benches.mixed_problems import Mixed, pose, problems
from benches.problems import FIGURES, side_by_side, table
from exhume.results.certificate import EXACT, EXACT_BELOW, FAILED, RECOVERED_BELOW
from exhume.support.files import write_json

RESULTS = FIGURES / "mixed_certificates"
IN_DOCS = Path("docs/images/mixed_certificates.png")
MOST_PASSES, STARTS = 3000, 2
MULTIPLES = [0.1 * step for step in range(1, 51)]  # of the error bar, at which coverage is plotted


def run(case: tuple[int, Mixed]) -> dict[str, Any]:
    """Verdict, error and bars of one problem, unless a file has them already; a missing sample counts 1."""
    index, problem = case
    path = RESULTS / f"{index}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    target, truth = pose(problem)
    count = len(truth) + problem.more
    result = exhume.Exact(max_starts=STARTS)(
        target, num_samples=count, seed=problem.seed, allow_underdetermined=True, max_passes=MOST_PASSES
    )
    judged, certificate = exhume.score(result, truth), result.certificate
    signed = result.signs_determined
    of_row = {match.row: match.error if signed else match.error_up_to_sign for match in judged.matches}
    bars = certificate.predicted_errors if certificate.verdict != FAILED else ()
    # A row that matches no sample is as wrong as a row of zeros.
    numbers = asdict(problem) | {
        "verdict": certificate.verdict,
        "error": max(judged.claimed_error, 1.0 if judged.missing else 0.0),
        "certified": [(of_row.get(row, 1.0), bar) for row, bar in enumerate(bars) if bar < RECOVERED_BELOW],
        "right": sum(error < RECOVERED_BELOW for error in of_row.values()),
        "stop": result.stop.value,
    }
    write_json(path, numbers)
    print(index, numbers, file=sys.stderr, flush=True)
    return numbers


def main() -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    first = int(os.environ.get("EXHUME_BENCH_PROBLEMS", "0")) or None
    results = side_by_side(run, list(enumerate(problems()))[:first])
    kinds = list(dict.fromkeys(each["kind"] for each in results))
    rows = [(kind, *_counts([each for each in results if each["kind"] == kind])) for kind in kinds]
    header = ("problems", "", "exact", "wrongly", "approximate", "right", "certified", "wrongly", "within 3 bars")
    table(header, [*rows, ("all", *_counts(results))])
    IN_DOCS.parent.mkdir(parents=True, exist_ok=True)
    for path in (FIGURES / "mixed_certificates.png", *([IN_DOCS] if os.environ.get("EXHUME_RECORD") == "1" else [])):
        plot({kind: _pairs([each for each in results if each["kind"] == kind]) for kind in kinds}, path)


def _pairs(results: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Error and bar of the certified samples."""
    return [(error, bar) for each in results for error, bar in each["certified"]]


def _counts(results: list[dict[str, Any]]) -> tuple[int | str, ...]:
    exact, pairs = [each for each in results if each["verdict"] == EXACT], _pairs(results)
    within = sum(error <= 3 * bar for error, bar in pairs)
    return (
        len(results),
        len(exact),
        sum(each["error"] > EXACT_BELOW for each in exact),
        sum(each["verdict"] != FAILED for each in results) - len(exact),
        sum(each["right"] for each in results),
        len(pairs),
        sum(error > RECOVERED_BELOW and error > 3 * bar for error, bar in pairs),
        f"{within / len(pairs):.1%}" if pairs else "-",
    )


def plot(pairs: dict[str, list[tuple[float, float]]], path: Path) -> None:
    """Errors over bars, and the share of certified samples within multiples of their bars."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for kind, here in pairs.items():
        if not here:
            continue
        errors, bars = zip(*here, strict=True)
        left.loglog(bars, [max(error, 1e-9) for error in errors], ".", markersize=3, alpha=0.5, label=kind)
        shares = [sum(error <= times * bar for error, bar in here) / len(here) for times in MULTIPLES]
        right.plot(MULTIPLES, shares, label=kind)
    ends = [1e-9, 1.0]
    left.loglog(ends, ends, color="grey", linewidth=0.8)
    left.loglog(ends, [3 * end for end in ends], color="grey", linewidth=0.8, linestyle=":")
    left.set(xlabel="error bar", ylabel="true error", title="certified samples; lines: 1 and 3 bars")
    right.set(xlabel="multiple of the error bar", ylabel="share of samples within", ylim=(0, 1.02), title="coverage")
    right.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
