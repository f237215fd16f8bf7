"""Reports: one page of HTML that works offline, from a run, a comparison, a sweep or an audit."""

from exhume.report.content import Chart, Fact, Field, Level, Link, Remedy, Report, Sample, Table, Verdict
from exhume.report.of_comparison import of_comparison
from exhume.report.of_sweep import of_sweep
from exhume.report.one_attack import of_run, of_subject
from exhume.report.page import render, write
from exhume.report.subject import Subject

__all__ = [
    "Chart",
    "Fact",
    "Field",
    "Level",
    "Link",
    "Remedy",
    "Report",
    "Sample",
    "Subject",
    "Table",
    "Verdict",
    "of_comparison",
    "of_run",
    "of_subject",
    "of_sweep",
    "render",
    "write",
]
