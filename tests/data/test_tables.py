"""Behaviour of tables: CSV files, scikit-learn's records, statistics, decimals and original units."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes

import exhume
from exhume.data import Column, Dataset, TableFormat, load
from exhume.data.user.csv import MOST_BYTES, read_table
from exhume.errors import DataError, ExhumeError, InputError
from exhume.scoring.records import as_records

TEXT = "age (years),weight [kg],level,risk\n31,70.5,0.125,low\n45,81.2,0.5,high\n28,64,1.25,low\n60,90.1,0.75,high\n"


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "own.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def records_of(data: Dataset) -> torch.Tensor:
    assert data.table is not None
    return data.table.to_records(data.inputs)


def texts_of(data: Dataset) -> list[list[str]]:
    assert data.table is not None
    columns = data.table.columns
    return [[c.text(v) for c, v in zip(columns, row, strict=True)] for row in records_of(data).tolist()]


def test_a_table_is_read_with_names_units_decimals_and_statistics(tmp_path: Path) -> None:
    data = load("table", path=write(tmp_path, TEXT), label="risk")
    assert data.table is not None
    assert [(c.name, c.unit, c.decimals) for c in data.table.columns] == [
        ("age", "years", 0),
        ("weight", "kg", 1),
        ("level", "", 3),
    ]
    raw = np.array([[31, 70.5, 0.125], [45, 81.2, 0.5], [28, 64, 1.25], [60, 90.1, 0.75]])
    np.testing.assert_allclose(data.inputs, (raw - raw.mean(0)) / raw.std(0), rtol=1e-6)
    assert data.labels.tolist() == [1, -1, 1, -1]  # "high" stands before "low"
    assert texts_of(data)[0] == ["31", "70.5", "0.125"]
    assert "own.csv" in data.protocol
    assert str(tmp_path) not in data.protocol


@pytest.mark.parametrize(
    ("mode", "rows"), [("subset", slice(0, 2)), ("full", slice(0, 4)), ("none", None)], ids=["subset", "full", "none"]
)
def test_statistics_are_those_of_the_chosen_records(tmp_path: Path, mode: str, rows: slice | None) -> None:
    data = load("table", path=write(tmp_path, TEXT), label="risk", columns="age", samples=2, standardise=mode)
    ages = np.array([31.0, 45.0, 28.0, 60.0])
    mean, std = (0.0, 1.0) if rows is None else (ages[rows].mean(), ages[rows].std())
    np.testing.assert_allclose(data.inputs[:, 0], (ages[:2] - mean) / std, rtol=1e-6)
    np.testing.assert_allclose(data.non_members[:, 0], (ages[2:] - mean) / std, rtol=1e-6)


def test_a_constant_column_is_centred_and_keeps_its_scale(tmp_path: Path) -> None:
    data = load("table", path=write(tmp_path, "a,b\n0.1,1\n0.1,2\n0.1,3\n"))
    assert data.inputs[:, 0].tolist() == [0, 0, 0]
    assert texts_of(data) == [["0.1", "1"], ["0.1", "2"], ["0.1", "3"]]


def test_one_record_has_no_statistics(tmp_path: Path) -> None:
    path = write(tmp_path, TEXT)
    with pytest.raises(InputError, match="two or more, or standardise 'none'"):
        load("table", path=path, label="risk", samples=1)
    assert len(load("table", path=path, label="risk", samples=1, standardise="none").inputs) == 1


def test_more_digits_than_vectors_carry_are_not_promised(tmp_path: Path) -> None:
    data = load("table", path=write(tmp_path, "a,b\n0.12345678901,1e-3\n2.98765432109,2\n7.11111111111,5\n"))
    assert data.table is not None
    assert [column.decimals for column in data.table.columns] == [None, 3]
    assert data.table.columns[0].text(0.12345678901) == "0.123457"


@pytest.mark.parametrize(
    "content",
    [
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "\r"),
        "\ufeff" + TEXT,
        TEXT.replace(",", ";"),
        TEXT.replace(",", "\t"),
        TEXT.replace("\n", "\n\n"),
        TEXT.rstrip("\n"),
        TEXT.replace("31,", '"31",').replace("age (years)", '"age (years)"'),
        TEXT.replace(",", " , "),
    ],
    ids=["CRLF", "CR", "BOM", "semicolons", "tabs", "blank lines", "no last newline", "quotes", "spaces"],
)
def test_spreadsheets_spellings_read_alike(tmp_path: Path, content: str) -> None:
    expected = load("table", path=write(tmp_path, TEXT), label="risk")
    data = load("table", path=write(tmp_path, content), label="risk")
    assert torch.equal(data.inputs, expected.inputs)
    assert data.table == expected.table


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b\n", "wanted 0, available 0"),
        ("a,b\n1,2\n3,x\n", r"line 3, column 'b': 'x' is no number"),
        ("a,b\n1,2\n\n3,\n", r"line 4, column 'b': '' is missing"),
        ("a,b\n1,2\nNaN,3\n", r"line 3, column 'a': 'NaN' is missing"),
        ('a,b\n1,2\n"3\n4",5\n', r"line 4, column 'a': '3\\n4' is no number"),
        ("a,b\n1,2\n1_000,3\n", "line 3, column 'a': '1_000' is no number"),
        ("a;b\n1;2\n1,5;3\n", "line 3, column 'a': '1,5' is no number"),
        ("a,b\n1,2\n1e999,3\n", "line 3, column 'a': '1e999' is beyond float32"),
        ("a,b\n1,2\n3\n", "line 3: 1 cells; valid: 2"),
        ("a,b\n1,2\n3,4,5\n", "line 3: 3 cells; valid: 2"),
        ('a,b\n1,"2\n', "line 2: not readable as CSV"),
        ("a,b\n1," + "9" * 200_000 + "\n", "line 2: not readable as CSV .*field larger"),
        ("a,b\n1," + "9" * 1000 + "\n", r"line 2, column 'b': '9{40}\.\.\.' is no number"),
        ("x" * 200_000 + "\n1\n", "line 1: not readable as CSV"),
        ("a,a\n1,2\n", "two columns 'a'"),
        ("a,\n1,2\n", "name of column 2 is ''"),
        ("a,\x1b[31mb\n1,2\n", r"name of column 2 is '\\x1b"),
        ("a," + "b" * 201 + "\n1,2\n", "1 to 200 printable"),
        ("1,2\n3,4\n", "has no header"),
        (b"a,b\n1,\xff\n", "not text in UTF-8"),
        (",".join(f"c{index}" for index in range(10_001)), "10,001 columns"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(ExhumeError, match=words):
        load("table", path=write(tmp_path, content))


def test_missing_folders_and_huge_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        load("table", path=tmp_path / "absent.csv")
    with pytest.raises(DataError, match="cannot be read"):
        load("table", path=tmp_path)
    huge = tmp_path / "huge.csv"
    with huge.open("wb") as file:
        file.truncate(MOST_BYTES + 1)  # sparse: it takes no room
    with pytest.raises(DataError, match="at most 100,000,000"):
        load("table", path=huge)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"label": "height"}, "no column 'height'; valid: 'age', 'weight', 'level', 'risk'"),
        ({"label": "age", "columns": ["age", "weight"]}, "'age' is the label"),
        ({"columns": ["age", "age"]}, "a column twice"),
        ({"columns": []}, "at least one"),
        ({"columns": "age", "samples": 5}, "wanted 5, available 4"),
        ({"label": "risk", "labels": "real"}, "line 2, column 'risk': 'low' is no number"),
        ({"label": "age", "columns": "level", "labels": "sign"}, "exactly 2 classes, not 4"),
        ({"columns": "age", "labels": "sign"}, "need a label column"),
        ({"columns": "age", "standardise": "channel"}, "full, none, subset"),
        ({"columns": "age", "delimiter": "|"}, "delimiter"),
        ({}, "line 2, column 'risk': 'low' is no number"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, options: dict[str, object], words: str) -> None:
    with pytest.raises(ExhumeError, match=words):
        load("table", path=write(tmp_path, TEXT), **options)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("given", [31, 45, 28, 60]),
        ("real", ((np.array([31, 45, 28, 60]) - 41) / np.std([31, 45, 28, 60])).tolist()),
        ("auto", ((np.array([31, 45, 28, 60]) - 41) / np.std([31, 45, 28, 60])).tolist()),
        ("one-hot", [[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]]),
    ],
)
def test_number_labels_are_taken_as_asked(tmp_path: Path, labels: str, expected: list[float]) -> None:
    data = load("table", path=write(tmp_path, TEXT), label="age (years)", columns=["weight", "level"], labels=labels)
    np.testing.assert_allclose(data.labels, expected, rtol=1e-6)


def test_hostile_names_are_kept_as_texts_and_printed_harmlessly(tmp_path: Path) -> None:
    names = ["<script>alert(1)</script>", "=cmd()", "../../etc", "__class__"]
    with (tmp_path / "own.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, [1, 2, 3, 4], [2, 3, 4, 6]])
    data = load("table", path=tmp_path / "own.csv")
    assert data.table is not None
    assert [column.name for column in data.table.columns] == names
    assert Column("a\x1b[2J\nb", "\u202eunit").title == "a?[2J?b (?unit)"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet='ab1,;"\n\r\t .-e()[]\ufeff\x00', max_size=80).map(str.encode))
def test_any_bytes_are_a_table_or_a_clear_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = write(tmp_path_factory.getbasetemp(), content)
    try:
        table = read_table(path)
        data = load("table", path=path)
    except ExhumeError:
        return
    assert data.input_dim == len(table.columns)


@pytest.mark.parametrize("name", ["diabetes", "breast-cancer"])
@pytest.mark.parametrize("mode", ["subset", "full", "none"])
def test_records_of_scikit_learn_come_back_to_the_last_digit(name: str, mode: str) -> None:
    raw = load_diabetes(scaled=False).data if name == "diabetes" else load_breast_cancer().data
    data = load(name, samples=15, seed=3, standardise=mode)
    again = load(name, samples=15, seed=3, standardise=mode)
    assert torch.equal(data.inputs, again.inputs)
    assert data.table is not None
    assert len(data.non_members) == 15
    originals = {tuple(row) for row in raw.tolist()}
    rounded = [tuple(float(text) for text in row) for row in texts_of(data)]
    assert len(set(rounded)) == 15
    assert set(rounded) <= originals
    if mode == "subset":
        torch.testing.assert_close(data.inputs.mean(0), torch.zeros(data.input_dim), atol=1e-5, rtol=0)
        # a column that is constant among the drawn ones would have 0
        torch.testing.assert_close(data.inputs.std(0, correction=0), torch.ones(data.input_dim), atol=1e-5, rtol=0)


def test_labels_of_scikit_learns_records_are_theirs() -> None:
    bunch = load_diabetes(scaled=False)
    progression = {tuple(row): value for row, value in zip(bunch.data.tolist(), bunch.target.tolist(), strict=True)}
    data = load("diabetes", samples=30)
    true = np.array([progression[tuple(map(float, row))] for row in texts_of(data)])
    np.testing.assert_allclose(data.labels, (true - true.mean()) / true.std(), rtol=1e-5, atol=1e-6)
    signs = load("diabetes", samples=30, labels="sign").labels
    assert signs.tolist() == np.where(true > np.median(true), 1, -1).tolist()
    cancer = load_breast_cancer()
    kinds = {tuple(row): kind for row, kind in zip(cancer.data.tolist(), cancer.target.tolist(), strict=True)}
    biopsies = load("breast-cancer", samples=30)
    assert biopsies.labels.tolist() == [2 * kinds[tuple(map(float, row))] - 1 for row in texts_of(biopsies)]


def test_a_format_is_the_same_after_json_and_older_ones_have_no_decimals() -> None:
    table = load("diabetes", samples=5).table
    assert table is not None
    assert TableFormat.from_json(json.loads(json.dumps(table.to_json()))) == table
    older = {"columns": [{"name": "a", "unit": "", "mean": 0.0, "std": 1.0}]}
    assert TableFormat.from_json(older).columns[0].decimals is None


@pytest.mark.parametrize("decimals", [-1, 16, 10**9, 2.0, "2", True])
def test_impossible_decimals_are_refused(decimals: object) -> None:
    value = {"columns": [{"name": "a", "unit": "", "mean": 0.0, "std": 1.0, "decimals": decimals}]}
    with pytest.raises(InputError):
        TableFormat.from_json(value)


@pytest.mark.parametrize("value", [{}, {"columns": 3}, {"columns": [3]}, {"columns": []}, {"columns": [{"unit": "a"}]}])
def test_what_is_no_format_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(InputError):
        TableFormat.from_json(value)


def test_values_are_written_as_the_data_write_them() -> None:
    assert Column("a", decimals=0).text(58.6) == "59"
    assert Column("a", decimals=2).text(-0.001) == "0.00"
    assert Column("a", decimals=2).text(85) == "85.00"
    assert Column("a").text(1 / 3) == "0.333333"


def test_patients_come_back_from_the_weights_to_the_last_digit() -> None:
    training = load("diabetes", samples=4, seed=0)
    victim = exhume.RandomFeatures(num_features=1600, activation="gelu", seed=0)
    result = exhume.reconstruct(victim.fit(training.inputs, training.labels).target(), num_samples=4)
    assert result.certificate.verdict == "exact"
    assert training.table is not None
    records = as_records(result, exhume.score(result, training.inputs), training.inputs, training.table)
    assert (records.values_right, records.values, records.borrowed) == (40, 40, ())
    assert "40 of 40 values right to the last digit" in records.summary()
    assert "age (years)" in records.summary()
