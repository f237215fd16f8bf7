"""The tables of the page: how a value is shown, by what it is sorted, and how it is written to CSV."""

from __future__ import annotations

import csv
import io
import math
import numbers
import re
from dataclasses import dataclass, replace
from typing import Any

from exhume.errors import InputError
from exhume.report.content import Field, Link, Report, Sample, Table

NOTHING = "\N{EN DASH}"
_LARGEST_PLAIN = 1e6  # a float from here on is shown with an exponent
_SMALLEST_PLAIN = 1e-3  # and below here
# What a spreadsheet takes for the start of a formula; tab and return are stripped before it looks.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
# A path that stays below the page: names of plain letters, none of dots alone.
_BELOW = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*")
# Columns of the samples' table: a heading, and what of a sample stands below it.
_SAMPLE_COLUMNS = (
    ("Sample", "row"),
    ("Certainty", "certainty"),
    ("Expected error (of the norm)", "error_bar"),
    ("Label", "label"),
    ("True label", "true_label"),
    ("True sample", "truth_index"),
    ("Measured error (of the norm)", "error"),
    ("Error up to sign (of the norm)", "error_up_to_sign"),
    ("PSNR (dB)", "psnr"),
    ("SSIM (0 to 1)", "ssim"),
    ("Rank among non-members", "rank"),
    ("p-value", "p_value"),
)


@dataclass(frozen=True)
class Cell:
    """A value as it is shown, the number it is sorted by (None: by its text), and the true value below it.

    `agrees` is how many of its first characters are those of the true value.
    """

    text: str
    number: float | None = None
    missing: bool = False
    beneath: str = ""
    link: str = ""
    agrees: int = 0


@dataclass(frozen=True)
class Column:
    """A heading; columns of numbers are set flush right."""

    name: str
    unit: str
    numeric: bool


@dataclass(frozen=True)
class Grid:
    """A table as the page draws it, and the file that it offers."""

    id: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    file_name: str
    csv: str


def of_table(table: Table, id: str) -> Grid:
    """Lays out any table of a report."""
    for row in table.rows:
        if len(row) != len(table.columns):
            raise InputError(
                f"table {table.title!r} has a row of {len(row)} cells; valid: {len(table.columns)}, one for each column"
            )
    rows = tuple(tuple(cell(value) for value in row) for row in table.rows)
    columns = tuple(
        Column(name, "", _is_numeric([row[place] for row in table.rows])) for place, name in enumerate(table.columns)
    )
    text = to_csv(table.columns, table.rows)
    return Grid(id, table.title, table.caption, columns, rows, f"{file_stem(table.name)}.csv", text)


def of_samples(samples: tuple[Sample, ...]) -> Table:
    """Collects everything that is known of each sample but its content; a column that nobody fills is left out."""
    signs_matter = any(sample.error != sample.error_up_to_sign for sample in samples)
    columns = [each for each in _SAMPLE_COLUMNS if signs_matter or each[1] != "error_up_to_sign"]
    rows = [{title: getattr(sample, name) for title, name in columns} for sample in samples]
    return Table.of("Every sample", rows, name="samples")


def of_records(report: Report, id: str) -> Grid:
    """Lays out recovered records in original units, the true value of each below it."""
    shown = [sample for sample in report.samples if sample.record]
    for sample in shown:
        for record in (sample.record, sample.true_record or sample.record):
            if len(record) != len(report.fields):
                raise InputError(
                    f"sample {sample.row} has a record of {len(record)} values; valid: {len(report.fields)}, "
                    "one for each field"
                )
    has_truth = any(sample.true_record for sample in shown)
    columns = (
        Column("Sample", "", True),
        Column("Certainty", "", False),
        Column("Expected error", "of the norm", True),
        *(
            Column(field.name, field.unit, _is_numeric([each.record[place] for each in shown]))
            for place, field in enumerate(report.fields)
        ),
    )
    rows = tuple(_record_row(sample, report.fields) for sample in shown)
    caption = "Each value is the recovered one, in original units" + (
        "; below it the true one. Digits that agree are bold." if has_truth else "."
    )
    return Grid(id, "Recovered records", caption, columns, rows, "records.csv", _records_csv(report, shown, has_truth))


def cell(value: Any) -> Cell:
    """Shows one value: None, bool, a number or a text."""
    if value is None:
        return Cell(NOTHING, missing=True)
    if isinstance(value, bool):
        return Cell("yes" if value else "no", float(value))
    if isinstance(value, str):
        leads = isinstance(value, Link) and _BELOW.fullmatch(value) is not None
        return Cell(str(value), link=str(value) if leads else "")
    if isinstance(value, numbers.Real):
        if not math.isfinite(value):
            return Cell(NOTHING, missing=True)
        return Cell(str(value) if isinstance(value, numbers.Integral) else show_number(float(value)), float(value))
    raise InputError(f"a table's cell holds {value!r}; valid: None, bool, a number or a text")


def show_number(value: float) -> str:
    """Writes a finite number with three significant digits, or all digits before the point if there are more."""
    if value == 0:
        return "0"
    if not _SMALLEST_PLAIN <= abs(value) < _LARGEST_PLAIN:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def to_csv(columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...]) -> str:
    """Writes a table as CSV (RFC 4180); a text that a spreadsheet would run as a formula gets an apostrophe."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    for row in (columns, *rows):
        writer.writerow([_plain(value) for value in row])
    return buffer.getvalue()


def file_stem(name: str) -> str:
    """Makes a name harmless as a file's: letters, digits, dashes, underscores."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:80] or "table"


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_STARTS) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or not math.isfinite(value):
        return ""
    return str(value) if isinstance(value, numbers.Integral) else repr(float(value))


def _is_numeric(values: list[Any]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and not any(isinstance(value, bool | str) for value in present)


def _record_row(sample: Sample, fields: tuple[Field, ...]) -> tuple[Cell, ...]:
    """The recovered values, each with the true one below it if that is known, and the digits that agree."""
    cells = [_field_cell(value, field) for value, field in zip(sample.record, fields, strict=True)]
    name = cell(sample.row)
    if sample.true_record:
        true = [_field_cell(value, field).text for value, field in zip(sample.true_record, fields, strict=True)]
        cells = [
            replace(recovered, beneath=text, agrees=_agreeing(recovered.text, text))
            for recovered, text in zip(cells, true, strict=True)
        ]
        name = replace(name, beneath="true" if sample.truth_index is None else f"true {sample.truth_index}")
    return (name, cell(sample.certainty), cell(sample.error_bar), *cells)


def _field_cell(value: float | str, field: Field) -> Cell:
    """A value with as many decimals as its column has."""
    if isinstance(value, str) or field.decimals is None or not math.isfinite(value):
        return cell(value)
    return Cell(f"{round(value, field.decimals) + 0.0:.{field.decimals}f}", value)


def _agreeing(text: str, true: str) -> int:
    """How many first characters of a value are those of the true one; none if the two differ in length before a point.

    12.3 and 1.23 share no digit: their first ones have another weight.
    """
    if text == true:
        return len(text)
    if len(text.partition(".")[0]) != len(true.partition(".")[0]) or "e" in f"{text}{true}":
        return 0
    return next(
        (place for place, (a, b) in enumerate(zip(text, true, strict=False)) if a != b), min(len(text), len(true))
    )


def _records_csv(report: Report, shown: list[Sample], has_truth: bool) -> str:
    names = [f"{field.name} ({field.unit})" if field.unit else field.name for field in report.fields]
    heads: tuple[str, ...] = ("sample", "certainty", "expected error", *names)
    rows: list[tuple[Any, ...]] = [(each.row, each.certainty, each.error_bar, *each.record) for each in shown]
    if has_truth:
        unknown = (None,) * len(names)
        heads += tuple(f"true {name}" for name in names)
        rows = [row + (each.true_record or unknown) for row, each in zip(rows, shown, strict=True)]
    return to_csv(heads, tuple(rows))
