"""A report from a sweep: how far it is, its means over seeds, and charts against the size of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from exhume.errors import InputError
from exhume.report.charts import sweep_error_chart, sweep_share_chart
from exhume.report.content import Chart, Fact, Level, Report, Table, Verdict
from exhume.sweep.experiment import Outcome
from exhume.sweep.export import differing_settings, flatten, summarise
from exhume.sweep.store import Counts, Record, Store

# Settings that place a cell on the axis, or repeat it; the others distinguish the lines.
_ALONG = ("seed", "ratio", "features")
_METHOD = "attack.method"
_MOST_LINES = 10  # in a chart; more cannot be distinguished
_MOST_FAILURES = 200  # that are listed; the export has all


def of_sweep(store_path: Path, name: str | None = None, redact: bool = False) -> Report:
    """The report on a sweep of a store.

    Args:
        store_path: the SQLite file that `exhume sweep run` wrote.
        name: which sweep; may be left out if the store holds one.
        redact: marks the page as redacted; it holds no samples in any case.
    """
    with Store(Path(store_path), create=False) as store:
        chosen = _chosen(store, name)
        records, counts = store.records(chosen), store.counts(chosen)
    lines = _lines(records)
    left_out = f"Charts show the first {_MOST_LINES} of {len(lines)} configurations; the table has all of them."
    return Report(
        title=f"Sweep {chosen}",
        verdict=_verdict(counts, lines),
        facts=_facts(counts),
        charts=_charts(lines),
        tables=tuple(table for table in (_summary(records), _failures(records)) if table.rows),
        notes=(left_out,) if len(lines) > _MOST_LINES else (),
        provenance=_provenance(Path(store_path), records),
        redacted=redact,
    )


def _chosen(store: Store, name: str | None) -> str:
    if name is not None:
        return name
    names = store.sweeps()
    if len(names) != 1:
        found = f"several sweeps; name one of: {', '.join(names)}" if names else "no sweep yet"
        raise InputError(f"{store.path} holds {found}")
    return names[0]


Line = dict[float, list[Outcome]]


def _lines(records: Sequence[Record]) -> dict[str, Line]:
    """Outcomes by configuration, named by its attack and the settings that differ, and by their place on the axis."""
    outcomes = [record.outcome for record in records if record.outcome is not None]
    settings = [flatten(record.cell.to_json()) for record in records if record.outcome is not None]
    differing = [name for name in differing_settings(settings) if name not in (*_ALONG, _METHOD)]
    lines: dict[str, Line] = {}
    for own, outcome in zip(settings, outcomes, strict=True):
        words = [f"{name} {own[name]}" for name in differing if own.get(name) is not None]
        line = lines.setdefault(", ".join([str(own.get(_METHOD)), *words]), {})
        line.setdefault(outcome.ratio, []).append(outcome)
    return lines


def _charts(lines: Mapping[str, Line]) -> tuple[Chart, ...]:
    shown = dict(list(lines.items())[:_MOST_LINES])
    if not shown:
        return ()

    def means(number: Callable[[Outcome], float]) -> dict[str, list[tuple[float, float]]]:
        return {
            name: [(ratio, fmean(map(number, outcomes))) for ratio, outcomes in line.items()]
            for name, line in shown.items()
        }

    return sweep_error_chart(means(lambda outcome: outcome.claimed_error)), sweep_share_chart(means(_share))


def _share(outcome: Outcome) -> float:
    return outcome.claimed_recovered / max(outcome.num_samples, 1)


def _verdict(counts: Counts, lines: Mapping[str, Line]) -> Verdict:
    headline = f"{counts.done:,} of {counts.total:,} experiments are done, {counts.failed:,} failed."
    return Verdict(Level.NEUTRAL, headline, tuple(_threshold(name, line) for name, line in lines.items()))


def _threshold(name: str, line: Line) -> str:
    """From which size on an attack recovers every sample of every experiment."""
    whole = [ratio for ratio in sorted(line, reverse=True) if all(_share(each) == 1 for each in line[ratio])]
    broken = [ratio for ratio in line if ratio not in whole]
    least = [ratio for ratio in whole if not broken or ratio > max(broken)]
    if not least:
        best = max(fmean(map(_share, outcomes)) for outcomes in line.values())
        return f"{name}: at no size did every sample come back; at best {best:.0%} did."
    if not broken:
        return (
            f"{name}: every sample came back at every size that was tried, p/dn = {min(least):.3g} to {max(least):.3g}."
        )
    return f"{name}: every sample came back from p/dn = {min(least):.3g} on."


def _facts(counts: Counts) -> tuple[Fact, ...]:
    numbers = {"Experiments": counts.total, "Done": counts.done, "Failed": counts.failed, "Waiting": counts.waiting}
    facts = [Fact(name, f"{number:,}") for name, number in numbers.items()]
    return (*facts, Fact("Time computing", f"{counts.seconds:,.0f} s"))


def _summary(records: Sequence[Record]) -> Table:
    rows = []
    for line in summarise(records):
        numbers = line.to_json()
        settings = numbers.pop("settings")
        rows.append({name: _cell(value) for name, value in settings.items()} | numbers)
    caption = "Means over seeds: the claimed error, and the share of samples recovered."
    return Table.of("Means over seeds", rows, caption=caption, name="summary")


def _failures(records: Sequence[Record]) -> Table:
    failed = [record for record in records if record.state == "failed"]
    rows = tuple((each.cell.title, (each.error or "").partition("\n")[0]) for each in failed[:_MOST_FAILURES])
    more = len(failed) - len(rows)
    caption = f"{more:,} more are in the export (exhume sweep export)." if more > 0 else ""
    return Table("Failed experiments", ("experiment", "reason"), rows, caption=caption, name="failures")


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _provenance(path: Path, records: Sequence[Record]) -> tuple[Fact, ...]:
    facts = [Fact("Store", path.name)]
    for name in ("exhume", "torch", "python"):
        versions = sorted({record.versions[name] for record in records if name in record.versions})
        if versions:
            facts.append(Fact(name, ", ".join(versions)))
    finished = [record.finished_at for record in records if record.finished_at is not None]
    if finished:
        facts.append(Fact("Date", max(finished).strftime("%Y-%m-%d")))
    return tuple(facts)
