"""Images unmixed from ordinary ReLU networks: what is recovered, in what time, and what is certified (EXHUME_DATA).

Every finished case is appended to a file and skipped by the next run: runs/unmix_bench.jsonl, or the path in
EXHUME_BENCH_STORE. EXHUME_BENCH_CASES selects groups, such as "simudy,certificate". EXHUME_BENCH_SEEDS limits the
number of cases of each row, EXHUME_BENCH_ATTACKS selects attacks, such as "unmix". EXHUME_RECORD=1 writes the plot of
the group "cost" into the documentation as well.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.ticker import NullLocator

import exhume
from benches.ordinary_networks import Victim
from benches.problems import FIGURES, say, table
from benches.scaling import fit_power
from benches.unmix_cases import GROUPS, RIVALS, Bar, Case
from exhume.errors import ExhumeError
from exhume.scoring.matching import as_rows, distances, on_sphere

STORE = Path("runs/unmix_bench.jsonl")
IN_DOCS = Path("docs/images/unmix_cost.png")
CERTIFYING = ("exact", "approximate")
# A bar below the first claims a sample. It is wrong if the error exceeds so many bars and the last number.
CLAIMED_BELOW, BARS, WRONG_ABOVE = 0.1, 3.0, 0.02
EXACT_BELOW = 1e-3
COLUMNS = (
    *("network", "recipe", "n", "attack", "cases", "recovered", "worst error", "SSIM", "seconds", "verdicts"),
    *("certified wrongly", "bar", "met"),
)


@dataclass(frozen=True)
class Measured:
    """What came of a case.

    Attributes:
        key: of the case.
        errors: of every true sample; a sample without a row counts as 1.
        verdict: of the certificate; "declined" if the attack refused, "diverged" if training failed and nothing ran.
        claimed: samples that were certified.
        wrong: those of them that are wrong.
        rows: samples that the attack returned; without being told n, its estimate.
        ssim: mean over the true samples; a sample without a row counts as 0. None without a result.
        reason: of the verdict, in words.
    """

    key: str
    errors: tuple[float, ...]
    verdict: str
    claimed: int = 0
    wrong: int = 0
    rows: int = 0
    ssim: float | None = None
    seconds: float = 0.0
    passes: float = 0.0
    loss: float = 0.0
    training_seconds: float = 0.0
    threads: int = 0
    reason: str = ""


def measure(case: Case) -> Measured:
    """Trains the victim, attacks it and compares with the truth."""
    started = time.perf_counter()
    victim = case.make()
    trained = time.perf_counter() - started
    count = len(victim.pictures.inputs)
    if victim.diverged:
        reason = f"The loss went from {victim.loss_before:.2g} to {victim.loss:.2g}."
        # No loss is written: infinity and NaN are no JSON numbers.
        return Measured(case.key, (1.0,) * count, "diverged", training_seconds=trained, reason=reason)
    settings: dict[str, Any] = {"max_seconds": case.max_seconds, "allow_underdetermined": True}
    told = count if case.method in RIVALS else None
    started = time.perf_counter()
    try:
        result = exhume.reconstruct(victim.target(told), method=case.method, seed=case.seed, **settings)
    except ExhumeError as error:
        seconds = time.perf_counter() - started
        return Measured(case.key, (1.0,) * count, "declined", seconds=seconds, loss=victim.loss, reason=str(error))
    errors, ssim = against_truth(result, victim)
    claims = certified(result, victim)
    return Measured(
        key=case.key,
        errors=errors,
        verdict=result.certificate.verdict,
        claimed=len(claims),
        wrong=sum(claims),
        rows=len(result.samples),
        ssim=ssim,
        seconds=result.seconds,
        passes=result.passes,
        loss=victim.loss,
        training_seconds=trained,
        threads=torch.get_num_threads(),
        reason=result.certificate.reason,
    )


def against_truth(result: exhume.Reconstruction, victim: Victim) -> tuple[tuple[float, ...], float | None]:
    """The claimed error of every true sample and the mean SSIM; samples without a row count as 1 and 0."""
    if not len(result.samples) or not bool(result.samples.isfinite().all()):
        return (1.0,) * len(victim.pictures.inputs), None
    judged = exhume.score(result, victim.pictures.inputs, to_pictures=victim.pictures.picture.to_pictures)
    similar = [match.ssim for match in judged.matches if match.ssim is not None]
    ssim = sum(similar) / judged.num_samples if similar else None
    return (*judged.claimed_errors, *[1.0] * judged.missing), ssim


def certified(result: exhume.Reconstruction, victim: Victim) -> list[bool]:
    """For every certified row whether it is wrong: too far, for its error bar, from every true sample."""
    verdict, bars = result.certificate.verdict, result.certificate.predicted_errors
    if verdict not in CERTIFYING or not len(result.samples):
        return []
    truth = as_rows("truth", victim.pictures.inputs)
    rows = as_rows("samples", result.samples, truth)
    if not result.norms_determined:
        truth, rows = on_sphere(truth), on_sphere(rows)
    signed, mirrored = distances(truth, rows)  # (n, m) each
    nearest = (signed if result.signs_determined else torch.minimum(signed, mirrored)).amin(0).tolist()
    # Without bars an exact verdict still claims every row.
    given = bars or ((0.0,) * len(nearest) if verdict == "exact" else ())
    return [
        (verdict == "exact" and error > EXACT_BELOW) or error > max(BARS * bar, WRONG_ABOVE)
        for error, bar in zip(nearest, given, strict=bool(bars))
        if bar < CLAIMED_BELOW or verdict == "exact"
    ]


def store_path() -> Path:
    """Where finished cases are kept."""
    return Path(os.environ.get("EXHUME_BENCH_STORE", STORE))


def finished(path: Path) -> dict[str, Measured]:
    """What is in the file; a last line that a killed run left incomplete is ignored."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            value = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[value["key"]] = Measured(**{**value, "errors": tuple(value["errors"])})
    return found


def run(cases: Iterable[Case], path: Path) -> dict[str, Measured]:
    """Measures the cases that the file does not hold, one after the other, and returns those of all."""
    known, wanted = finished(path), list(cases)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        with path.open("a", encoding="utf-8") as file:
            file.write("\n")
    for number, case in enumerate(wanted, 1):
        if case.key in known:
            continue
        found = known[case.key] = measure(case)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(found)) + "\n")
        good = sum(error < case.bar.below for error in found.errors)
        say(
            f"{number}/{len(wanted)} {case.key}: {good} of {len(found.errors)} below {case.bar.below:g}, "
            f"{found.verdict}, {found.wrong} certified wrongly, {found.seconds:.1f} s. {found.reason}"
        )
    return {case.key: known[case.key] for case in wanted}


def cells(cases: Sequence[Case], found: Sequence[Measured]) -> tuple[object, ...]:
    """A row of the table: cases that differ in their seed only. A row with a diverged victim does not meet its bar."""
    case, attacked = cases[0], [each for each in found if each.verdict != "diverged"]
    errors = [error for each in attacked for error in each.errors]
    good = sum(error < case.bar.below for error in errors)
    seconds = statistics.median(each.seconds for each in attacked) if attacked else 0.0
    ssim = [each.ssim for each in attacked if each.ssim is not None]
    verdicts = Counter(each.verdict for each in found)
    wrong, claimed = sum(each.wrong for each in attacked), sum(each.claimed for each in attacked)
    return (
        *case.row,
        case.method,
        len(found),
        f"{good} of {len(errors)} < {case.bar.below:g}",
        f"{max(errors):.1e}" if errors else "-",
        f"{sum(ssim) / len(ssim):.4f}" if ssim else "-",
        f"{seconds:.1f}",
        ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()),
        f"{wrong} of {claimed}",
        words(case.bar),
        met(case.bar, good, len(errors), seconds, verdicts["diverged"]),
    )


def words(bar: Bar) -> str:
    """The bar as the table writes it."""
    if bar.share is None:
        return "-"
    return f"{bar.share:.0%} < {bar.below:g}" + (f" in {bar.seconds:g} s" if bar.seconds else "")


def met(bar: Bar, good: int, count: int, seconds: float, diverged: int) -> str:
    """Whether a row reaches its bar."""
    if bar.share is None:
        return "-"
    enough = count > 0 and good >= bar.share * count and not diverged
    return "yes" if enough and (bar.seconds is None or seconds <= bar.seconds) else "no"


def draw_cost(cases: Sequence[Case], found: dict[str, Measured], record: bool) -> None:
    """Plots seconds against n and against the width of the first layer, with fitted exponents."""
    points: dict[tuple[int, int], list[float]] = {}
    for case in cases:
        if found[case.key].verdict == "exact":
            size = int(case.row[2]), int(case.row[0].split("-")[1])
            points.setdefault(size, []).append(found[case.key].seconds)
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for panel, place, fixed, words_of in ((panels[0], 0, 1000, "n"), (panels[1], 1, 20, "width of the first layer")):
        sizes = sorted(size for size in points if size[1 - place] == fixed)
        x, y = [size[place] for size in sizes], [statistics.median(points[size]) for size in sizes]
        for size, value in zip(sizes, x, strict=True):
            panel.scatter([value] * len(points[size]), points[size], s=14, color="tab:blue")
        if len(sizes) > 1:
            fit = fit_power(x, y)
            panel.plot(x, [fit(value) for value in x], color="tab:blue", label=f"exponent {fit}")
            panel.legend(fontsize=8)
        title = f"width {fixed}" if place == 0 else f"n = {fixed}"
        panel.set(xscale="log", yscale="log", xlabel=words_of, ylabel="seconds", title=f"SimuDy's MLP, {title}")
        panel.set_xticks(x, [f"{value:,}" for value in x])
        panel.xaxis.set_minor_locator(NullLocator())
    FIGURES.mkdir(exist_ok=True)
    for path in (FIGURES / IN_DOCS.name, *([IN_DOCS] if record else [])):
        figure.savefig(path, dpi=110)
        print(f"picture: {path}")
    plt.close(figure)


def chosen_groups() -> list[str]:
    """The groups that EXHUME_BENCH_CASES names, or all."""
    names = os.environ.get("EXHUME_BENCH_CASES", "").replace(",", " ").split()
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        sys.exit(f"EXHUME_BENCH_CASES: no group {', '.join(unknown)}; valid: {', '.join(GROUPS)}")
    return names or list(GROUPS)


def by_row(cases: Iterable[Case], limit: int | None, attacks: Sequence[str]) -> dict[tuple[str, ...], list[Case]]:
    """The cases of each row and attack, at most `limit` of each; of the named attacks only, if any are named."""
    rows: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        if attacks and case.method not in attacks:
            continue
        rows.setdefault((*case.row, case.method), []).append(case)
    return {row: members[:limit] for row, members in rows.items()}


def main() -> None:
    seeds, attacks = os.environ.get("EXHUME_BENCH_SEEDS"), os.environ.get("EXHUME_BENCH_ATTACKS", "")
    for group in chosen_groups():
        rows = by_row(GROUPS[group](), int(seeds) if seeds else None, attacks.replace(",", " ").split())
        cases = [case for members in rows.values() for case in members]
        found = run(cases, store_path())
        print(f"\n### {group}: {(GROUPS[group].__doc__ or '').splitlines()[0]}\n", flush=True)
        table(COLUMNS, [cells(members, [found[case.key] for case in members]) for members in rows.values()])
        wrong, claimed = (sum(getattr(each, name) for each in found.values()) for name in ("wrong", "claimed"))
        print(f"\ncertified wrongly: {wrong} of {claimed} certified samples, {len(cases)} cases; ", end="")
        print(f"{torch.get_num_threads()} threads", flush=True)
        if group == "cost":
            draw_cost(cases, found, os.environ.get("EXHUME_RECORD") == "1")
