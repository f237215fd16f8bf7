"""Tables of reports: cell texts, sort keys, and CSV files without spreadsheet formulas."""

import csv
import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhume.errors import InputError
from exhume.report import Field, Level, Link, Report, Sample, Table, Verdict
from exhume.report import html_table as grids


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, grids.NOTHING),
        (float("nan"), grids.NOTHING),
        (float("inf"), grids.NOTHING),
        (True, "yes"),
        (False, "no"),
        (0.0, "0"),
        (-0.0, "0"),
        (12345678, "12345678"),
        (0.0021234, "0.00212"),
        (0.00021234, "2.12e-4"),
        (-12.345, "-12.3"),
        (999.6, "1000"),
        (1234.5, "1234"),
        (1.2345e9, "1.23e9"),
        (np.float32(0.5), "0.5"),
        (np.int64(7), "7"),
        ("words", "words"),
    ],
)
def test_values_are_shown_with_three_digits_and_nothing_as_a_dash(value, shown):
    assert grids.cell(value).text == shown


def test_a_cell_is_sorted_by_its_value_and_not_by_what_is_shown():
    assert grids.cell(0.00021239).number == 0.00021239
    assert grids.cell("1").number is None
    assert grids.cell(None).missing


def test_other_cells_are_refused():
    with pytest.raises(InputError, match="valid: None, bool, a number or a text"):
        grids.cell([1])


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(InputError, match="row of 1 cells; valid: 2"):
        grids.of_table(Table("T", ("a", "b"), ((1,),)), "t")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_a_text_that_would_be_a_formula_gets_an_apostrophe_in_cells_and_headings(text):
    rows = list(csv.reader(io.StringIO(grids.to_csv((text,), ((text,),)), newline="")))
    assert rows == [["'" + text], ["'" + text]]


def test_negative_numbers_stay_numbers_and_keep_all_digits():
    rows = list(csv.reader(io.StringIO(grids.to_csv(("x",), ((-0.1234567890123,), (None,), (math.nan,), (True,))))))
    assert float(rows[1][0]) == -0.1234567890123
    assert rows[2:] == [[""], [""], ["true"]] or rows[2:] == [[], [], ["true"]]


@given(st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.floats(allow_nan=False, allow_infinity=False))))
def test_any_texts_and_numbers_come_back_from_csv(rows):
    text = grids.to_csv(("name", "value"), tuple(rows))
    back = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert len(back) == len(rows)
    for (name, value), (read_name, read_value) in zip(rows, back, strict=True):
        assert read_name in (name, "'" + name)
        assert not read_name.startswith(("=", "+", "-", "@"))
        assert float(read_value) == value


@pytest.mark.parametrize("name", ["../../etc/passwd", "a b", "", "con\x00", "…"])
def test_a_file_name_has_no_path_in_it(name):
    stem = grids.file_stem(name)
    assert stem
    assert all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in stem)


def test_columns_that_no_sample_fills_are_left_out():
    table = grids.of_samples((Sample(0, "certain", error_bar=0.1), Sample(1, "likely", psnr=20.0)))
    assert table.columns == ("Sample", "Certainty", "Expected error (of the norm)", "PSNR (dB)")
    assert table.rows == ((0, "certain", 0.1, None), (1, "likely", None, 20.0))


@pytest.mark.parametrize("up_to_sign", [0.5, 0.2])
def test_the_error_up_to_sign_is_a_column_only_if_it_differs_somewhere(up_to_sign):
    samples = (Sample(0, "likely", error=0.5, error_up_to_sign=up_to_sign),)
    shown = "Error up to sign (of the norm)" in grids.of_samples(samples).columns
    assert shown == (up_to_sign < 0.5)


def _tabular(*samples: Sample) -> Report:
    fields = (Field("bmi", "kg/m²"), Field("sex"))
    return Report("T", Verdict(Level.LEAK, "H"), samples=samples, fields=fields)


def test_records_stand_above_their_truth_and_both_are_in_the_csv():
    report = _tabular(
        Sample(4, "certain", 0.01, record=(21.57, 1.0), true_record=(21.6, 1.0), truth_index=9),
        Sample(2, "likely", None, record=(30.0, 2.0)),
    )
    grid = grids.of_records(report, "t")
    assert [(column.name, column.unit) for column in grid.columns[3:]] == [("bmi", "kg/m²"), ("sex", "")]
    assert (grid.rows[0][0].beneath, grid.rows[0][3].text, grid.rows[0][3].beneath) == ("true 9", "21.6", "21.6")
    assert grid.rows[0][3].number == 21.57
    assert grid.rows[1][3].beneath == ""
    rows = list(csv.DictReader(io.StringIO(grid.csv)))
    assert rows[0]["bmi (kg/m²)"] == "21.57"
    assert rows[0]["true bmi (kg/m²)"] == "21.6"
    assert rows[1]["true bmi (kg/m²)"] == ""


def test_a_record_of_the_wrong_length_is_refused():
    with pytest.raises(InputError, match="record of 1 values; valid: 2"):
        grids.of_records(_tabular(Sample(0, "certain", record=(1.0,))), "t")


def test_nothing_is_an_en_dash():
    assert grids.NOTHING == "\u2013"


@pytest.mark.parametrize(
    ("path", "leads"),
    [
        ("01-a/report.html", True),
        ("../x.html", False),
        ("javascript:alert(1)", False),
        ("//host/x", False),
        (".x", False),
    ],
)
def test_links_lead_only_below_the_page(path, leads):
    assert bool(grids.cell(Link(path)).link) is leads
    assert grids.cell(path).link == ""
