"""Reports: one page of HTML that works offline, from a run, a comparison, a sweep or an audit."""

from exhume.report.build import of_subject
from exhume.report.content import Chart, Fact, Field, Level, Remedy, Report, Sample, Table, Verdict
from exhume.report.page import render, write
from exhume.report.subject import Subject

__all__ = [
    "Chart",
    "Fact",
    "Field",
    "Level",
    "Remedy",
    "Report",
    "Sample",
    "Subject",
    "Table",
    "Verdict",
    "of_subject",
    "render",
    "write",
]
