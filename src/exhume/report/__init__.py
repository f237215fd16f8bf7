"""Reports: one page of HTML that works offline, from a run, a comparison, a sweep or an audit."""

from exhume.report.build import of_subject
from exhume.report.content import Chart, Fact, Field, Level, Link, Remedy, Report, Sample, Table, Verdict
from exhume.report.from_comparison import of_comparison
from exhume.report.from_run import of_run
from exhume.report.from_sweep import of_sweep
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
