"""Renders a report as one self-contained page of HTML."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from pydantic_core import to_jsonable_python

from exhume.errors import InputError
from exhume.report import html_table as grids
from exhume.report.content import Chart, Fact, Level, Report, Table
from exhume.support import files
from exhume.support.images import is_coarse

MANY_SAMPLES = 60  # the others are shown on request
_STYLE_SHEET = re.compile(r"<style\b.*?</style\s*>", flags=re.DOTALL | re.IGNORECASE)
_LEVEL_WORDS = {
    Level.LEAK: "Training data recovered",
    Level.PARTIAL: "Partly recovered",
    Level.IN_WEIGHTS: "In the weights, not recovered",
    Level.INCONCLUSIVE: "Inconclusive",
    Level.OUT_OF_REACH: "Not recoverable, by count",
    Level.NEUTRAL: "Overview",
}


@dataclass(frozen=True)
class Section:
    """A part of the page; `template` names the macro of sections.html.j2, or the gallery, that renders it."""

    id: str
    title: str
    template: str
    charts: tuple[Chart, ...] = ()
    tables: tuple[grids.Grid, ...] = ()
    facts: tuple[Fact, ...] = ()


def write(report: Report, path: Path) -> None:
    """Writes the page atomically, readable by its owner alone: it may show training data."""
    files.write_bytes(Path(path), render(report).encode())


def render(report: Report) -> str:
    """Renders the page; the same report gives the same text, and nothing in it is fetched from elsewhere."""
    if report.redacted and any(sample.record or sample.true_record for sample in report.samples):
        raise InputError("a redacted report holds records; valid: samples without records, their values withheld")
    sections = _sections(report)
    style, script = _asset("style.css"), _asset("script.js")
    downloads = {grid.id: {"name": grid.file_name, "text": grid.csv} for part in sections for grid in part.tables}
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            sections=sections,
            level_words=_LEVEL_WORDS[Level(report.verdict.level)],
            style=Markup(style),
            script=Markup(script),
            policy=_content_policy(style, script),
            many=MANY_SAMPLES,
            data={
                "report": {"name": f"{grids.file_stem(report.title)}.json", "content": finite(report.to_json())},
                "tables": downloads,
            },
        )
    )


def finite(value: Any) -> Any:
    """Copies a value as plain JSON, with None for every number that JSON cannot write: NaN and the infinities."""
    return to_jsonable_python(value, inf_nan_mode="null")


def _sections(report: Report) -> list[Section]:
    """Lists the parts that are not empty, in the order of the page."""
    names = itertools.count(1)

    def number(tables: Iterable[Table]) -> tuple[grids.Grid, ...]:
        return tuple(grids.of_table(table, f"table-{next(names)}") for table in tables)

    samples, figures, facts = report.samples, "figures", "facts"
    has_records = bool(report.fields) and any(sample.record for sample in samples)
    records = (grids.of_records(report, f"table-{next(names)}"),) if has_records else ()
    each_sample = number([grids.of_samples(samples)] if samples else [])
    premise, layers = number(report.premise), number(report.layers)
    defences, results = number(report.defence_tables), number(report.tables)
    returned = "What the attack returned" if report.samples_folded else ""
    drawn = any(sample.picture is not None for sample in samples)
    sections = (
        (report.pipeline, Section("pipeline", "What each step gives away", "pipeline")),
        (report.facts, Section("facts", "Key figures", "tiles", facts=report.facts)),
        (report.law, Section("law", "Where this model stands", figures, charts=(report.law,) if report.law else ())),
        (drawn, Section("gallery", returned or "Recovered samples", "gallery")),
        (records, Section("records", returned or "Recovered records", "records", tables=records)),
        (samples, Section("samples", "Sample by sample", "samples", tables=each_sample)),
        (premise, Section("premise", "The equation at the training data", figures, tables=premise)),
        (report.diagnosis, Section("diagnosis", "What the weights show", facts, facts=report.diagnosis)),
        (report.assumptions, Section("assumptions", "What the attacker knew", facts, facts=report.assumptions)),
        (report.convergence, Section("convergence", "Convergence", figures, charts=report.convergence)),
        (layers, Section("layers", "What the attack read", figures, tables=layers)),
        (
            report.defence_charts or defences,
            Section("defences", "Defences, measured", figures, report.defence_charts, defences),
        ),
        (report.charts or results, Section("results", "Results", figures, report.charts, results)),
        (report.remedies, Section("remedies", "What would reduce the risk", "remedies")),
        (report.model_card, Section("model-card", "For your model card", "model_card")),
        (report.notes, Section("notes", "Notes", "notes")),
        (report.provenance, Section("provenance", "Provenance", facts, facts=report.provenance)),
    )
    return [section for something, section in sections if something]


def _picture(source: str) -> str:
    """Lets only data URIs of pictures through: anything else would be fetched, or run."""
    if not source.startswith("data:image/"):
        raise InputError(f"a picture is given as {source[:40]!r}; valid: a data URI that starts with data:image/")
    return source


def _drawing(chart: Chart) -> Markup | None:
    """Gives a chart's markup if it is SVG, or None if it is a data URI.

    A style sheet within a drawing would hold for the whole page, and the page's policy forbids it: it is left out.
    """
    if chart.image.lstrip().startswith("<svg"):
        return Markup(_STYLE_SHEET.sub("", chart.image.strip()))
    _picture(chart.image)
    return None


def _share(error: float) -> str:
    """Gives the length of an error's bar in percent: full at 1, and never so short that it is not seen."""
    return f"{min(max(100 * error, 1.0), 100.0):.3g}" if not math.isnan(error) else "100"


@functools.cache
def environment() -> jinja2.Environment:
    """The templates of reports: everything is escaped, and a name that is not defined is an error."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("exhume.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"allow_nan": False}
    made.filters |= {
        "picture": _picture,
        "drawing": _drawing,
        "coarse": is_coarse,
        "number": lambda value: grids.cell(value).text,
        "share": _share,
    }
    return made


@functools.cache
def _asset(name: str) -> str:
    return (importlib.resources.files("exhume.report") / "templates" / name).read_text(encoding="utf-8")


def _content_policy(style: str, script: str) -> str:
    """Forbids the page to load, send or run anything but its own two inline blocks; drawings may style themselves."""
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{_digest(style)}'; style-src-attr 'unsafe-inline'; "
        f"script-src 'sha256-{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
