"""A report from a sweep: how far it is, its means over seeds, and charts against the size of the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from exhume.errors import InputError
from exhume.report.charts_of_many import sweep_error_chart, sweep_share_chart
from exhume.report.content import Chart, Fact, Level, Report, Table, Verdict
from exhume.sweep.export import flatten
from exhume.sweep.outcome import Outcome
from exhume.sweep.record import Counts, Record
from exhume.sweep.store import Store
from exhume.sweep.summary import summarise

# Settings that place a cell on the axis, or repeat it; the others tell one line from another.
_ALONG = ("seed", "ratio", "features")
_METHOD = "attack.method"
_MOST_LINES = 10  # in a chart; more cannot be told apart
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
    charts = _charts(lines)
    notes = []
    if len(lines) > _MOST_LINES:
        notes.append(f"Charts show the first {_MOST_LINES} of {len(lines)} configurations; the table has all of them.")
    return Report(
        title=f"Sweep {chosen}",
        verdict=_verdict(counts, lines),
        facts=_facts(counts),
        charts=charts,
        tables=tuple(table for table in (_summary(records), _failures(records)) if table.rows),
        notes=tuple(notes),
        provenance=_provenance(Path(store_path), records),
        redacted=redact,
    )


def _chosen(store: Store, name: str | None) -> str:
    names = store.sweeps()
    if name is not None:
        if name not in names:
            raise InputError(f"{store.path} has no sweep {name!r}; valid: {', '.join(names) or 'none yet'}")
        return name
    if len(names) != 1:
        told = f"several sweeps; name one of: {', '.join(names)}" if names else "no sweep yet"
        raise InputError(f"{store.path} holds {told}")
    return names[0]


Line = dict[float, list[Outcome]]


def _lines(records: Sequence[Record]) -> dict[str, Line]:
    """Outcomes by configuration, named by what tells them apart, and by their place on the axis."""
    configs: dict[str, dict[str, Any]] = {}
    groups: dict[str, Line] = {}
    for record in records:
        if record.outcome is None:
            continue
        flat = flatten(record.cell.to_json())
        config = {name: value for name, value in flat.items() if name not in _ALONG}
        key = json.dumps(config, sort_keys=True)
        configs[key] = config
        groups.setdefault(key, {}).setdefault(record.outcome.ratio, []).append(record.outcome)
    names = _names(configs)
    return {names[key]: line for key, line in groups.items()}


def _names(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """For each configuration its attack, and whatever else differs between them."""
    columns = dict.fromkeys(name for config in configs.values() for name in config)
    telling = [
        name
        for name in columns
        if name != _METHOD and len({json.dumps(config.get(name)) for config in configs.values()}) > 1
    ]
    return {
        key: ", ".join(
            [str(config.get(_METHOD)), *(f"{name} {config[name]}" for name in telling if config.get(name) is not None)]
        )
        for key, config in configs.items()
    }


def _charts(lines: Mapping[str, Line]) -> tuple[Chart, ...]:
    shown = dict(list(lines.items())[:_MOST_LINES])
    if not shown:
        return ()
    errors = {
        name: [(ratio, fmean(each.claimed_error for each in outcomes)) for ratio, outcomes in line.items()]
        for name, line in shown.items()
    }
    shares = {
        name: [(ratio, fmean(map(_share, outcomes))) for ratio, outcomes in line.items()]
        for name, line in shown.items()
    }
    return sweep_error_chart(errors), sweep_share_chart(shares)


def _share(outcome: Outcome) -> float:
    recovered = outcome.recovered if outcome.signs_determined else outcome.recovered_up_to_sign
    return recovered / max(outcome.num_samples, 1)


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
    lost = f"{counts.lost:,} times a worker or a run ended before its cell did" if counts.lost else ""
    return (
        Fact("Experiments", f"{counts.total:,}"),
        Fact("Done", f"{counts.done:,}", lost),
        Fact("Failed", f"{counts.failed:,}"),
        Fact("Waiting", f"{counts.waiting:,}"),
        Fact("Time computing", f"{counts.seconds:,.0f} s"),
    )


def _summary(records: Sequence[Record]) -> Table:
    lines = summarise(records)
    settings = list(lines[0].settings) if lines else []
    columns = (*settings, "cells", "done", "failed", "error", "recovered", "seconds")
    rows = tuple(
        (
            *(_cell(line.settings[name]) for name in settings),
            line.cells,
            line.done,
            line.failed,
            line.error,
            line.recovered,
            line.seconds,
        )
        for line in lines
    )
    caption = "Means over seeds: the error that the attack answers for, and the share of samples recovered."
    return Table("Means over seeds", columns, rows, caption=caption, name="summary")


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
