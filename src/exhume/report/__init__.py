"""Reports: one page of HTML that works offline, from a run, a comparison, a sweep or an audit."""

from exhume.report.content import Chart, Fact, Field, Level, Remedy, Report, Sample, Table, Verdict

__all__ = ["Chart", "Fact", "Field", "Level", "Remedy", "Report", "Sample", "Table", "Verdict"]
