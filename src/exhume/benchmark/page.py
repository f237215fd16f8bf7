"""The benchmark as text and as a report: one table of mean ranks, and one of every attack on every victim."""

from __future__ import annotations

import math
from collections.abc import Sequence

from exhume import __version__
from exhume.benchmark.ranking import Row
from exhume.benchmark.run import Benchmark
from exhume.benchmark.victims import BenchmarkVictim
from exhume.report import Report
from exhume.report.content import Fact, Level, Table, Verdict
from exhume.support import text

_NOTHING = "-"


def describe(found: Benchmark) -> str:
    """The table as aligned text, and below it why attacks did not run."""
    lines = [
        text.table(
            ("victim", "rank", "attack", "recovered", "error", "certified", "passes", "seconds", "verdict"),
            [_cells(row) for row in found.rows if row.ran],
            left=1,
        )
    ]
    refused: dict[tuple[str, str], list[str]] = {}
    for row in found.rows:
        if not row.ran:
            refused.setdefault((row.attack, row.reason), []).append(row.victim)
    lines += [f"  {name} did not run on {', '.join(where)}: {why}" for (name, why), where in refused.items()]
    ranks = ", ".join(f"{name} {rank:.2g}" for name, rank in found.ranks.items())
    return "\n".join([*lines, f"mean rank: {ranks}"])


def report_of(found: Benchmark, victims: Sequence[BenchmarkVictim]) -> Report:
    """The report: ranks, every result, and what each victim is."""
    best = next(iter(found.ranks), None)
    solved = {row.victim for row in found.rows if row.ran and row.num_samples and row.recovered == row.num_samples}
    wrong = sum(row.wrongly_certified or 0 for row in found.rows)
    sentences = (
        f"Of {len(victims)} victims, {len(solved)} are recovered completely by at least one attack.",
        f"{text.plural(wrong, 'certified sample')} of all attacks together {'is' if wrong == 1 else 'are'} wrong.",
    )
    headline = f"{best} has the best mean rank of {len(found.ranks)} attacks." if best else "No attack was run."
    summaries = {victim.title: victim for victim in victims}
    return Report(
        "Benchmark of attacks",
        Verdict(Level.NEUTRAL, headline, sentences),
        tables=(_ranks(found), _results(found), _victims(summaries, found)),
        provenance=(
            Fact("exhume", __version__),
            Fact("Seed of the attacks", str(found.seed)),
            Fact("Budget", f"{found.max_passes:,.0f} feature passes" if math.isfinite(found.max_passes) else "none"),
        ),
    )


def _ranks(found: Benchmark) -> Table:
    rows = []
    for name, rank in found.ranks.items():
        own = [row for row in found.rows if row.attack == name]
        ran = [row for row in own if row.ran]
        rows.append(
            {
                "Attack": name,
                "Mean rank": rank,
                "Victims attacked": len(ran),
                "Of": len(own),
                "Recovered": sum(row.recovered or 0 for row in ran),
                "Certified": sum(row.certified or 0 for row in ran),
                "Wrongly certified": sum(row.wrongly_certified or 0 for row in ran),
                "Seconds": sum(row.seconds or 0 for row in ran),
            }
        )
    caption = (
        "An attack ranks higher on a victim if it recovers more samples, then by its verdict, then if it needs fewer "
        "passes. Attacks that recover nothing share a rank, and so do those that did not run, which is the last."
    )
    return Table.of("Attacks", rows, caption=caption, name="ranks")


def _results(found: Benchmark) -> Table:
    rows = [
        {
            "Victim": row.victim,
            "Rank": row.rank,
            "Attack": row.attack,
            "Recovered": row.recovered,
            "Of": row.num_samples,
            "Error": row.error,
            "Certified": row.certified,
            "Wrongly certified": row.wrongly_certified,
            "Verdict": row.verdict,
            "Passes": row.passes,
            "Seconds": row.seconds,
            "Note": row.reason or None,
        }
        for row in found.rows
    ]
    caption = (
        "Recovered is an error below 0.1, with the signs that the attack claims. Certificates do not see the truth."
    )
    return Table.of("Results", rows, caption=caption, name="results")


def _victims(victims: dict[str, BenchmarkVictim], found: Benchmark) -> Table:
    rows = [
        {
            "Victim": title,
            "What it is": victim.summary,
            "Hash of data and initial weights": victim.hash,
            "Hash of trained weights": found.hashes.get(title),
        }
        for title, victim in victims.items()
    ]
    caption = (
        "The first hash is the same on every machine. Trained weights differ in their last bits between processors."
    )
    return Table.of("Victims", rows, caption=caption, name="victims")


def _cells(row: Row) -> list[str]:
    counted = f"{row.recovered} of {row.num_samples}"
    error = _NOTHING if row.error is None else f"{row.error:.2g}"
    wrong = f", {row.wrongly_certified} wrong" if row.wrongly_certified else ""
    cost = [f"{row.passes or 0:,.0f}", f"{row.seconds or 0:.1f}"]
    return [row.victim, str(row.rank), row.attack, counted, error, f"{row.certified}{wrong}", *cost, str(row.verdict)]
