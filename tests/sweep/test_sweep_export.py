"""A sweep as a table: every setting and number in its own column, the same in CSV and Parquet."""

import csv

import fake_experiments
import pandas as pd
import pytest
from pyarrow import parquet

from exhume.errors import FileError, InputError
from exhume.sweep import Finished, Grid
from exhume.sweep.export import flatten, frame, summarise, write
from exhume.sweep.store import Store

GRID = Grid(
    data=[{"name": "sphere", "dim": 7}, "digits"],
    victim=["rf", {"kind": "mlp", "settings": {"first_scale": 0.5}}],
    ratio=[1, 2.5],
    attack=["exact", {"method": "descent", "num_samples": 3, "knows": ["subspace"]}],
    seeds=2,
)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "sweep.sqlite") as opened:
        opened.register("a", GRID.cells())
        yield opened


@pytest.fixture
def records(store):
    """Two cells are done, one has failed."""
    first, second, third, *_ = GRID.cells()
    for cell, changes in ((first, {"error": 0.25, "psnr": 31.5}), (second, {"error": 1.0, "verdict": "failed"})):
        finished = Finished(outcome=fake_experiments.outcome(cell, **changes), pictures=b"many bytes")
        store.finish(cell.key, finished, seconds=1.5, worker="tcp://w", versions={"exhume": "0", "torch": "2"})
    store.fail(third.key, 'InputError: "no", said\nthe attack')
    return store.records("a")


def test_every_setting_and_number_is_a_column(records):
    table = [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in frame(records).to_dict("records")
    ]
    assert len(table) == 32
    first, second, third, *_, last = table
    assert (first["state"], first["data.name"], first["data.dim"], first["victim.kind"]) == ("done", "sphere", 7, "rf")
    assert (first["ratio"], first["attack.method"], first["seed"], first["outcome.error"]) == (1.0, "exact", 0, 0.25)
    assert (first["seconds"], first["version.exhume"], first["outcome.psnr"]) == (1.5, "0", 31.5)
    assert (second["attack.num_samples"], second["attack.knows"], first["attack.num_samples"]) == (
        "3",
        "subspace",
        "true",
    )
    assert (third["state"], third["error"].splitlines()[0]) == ("failed", 'InputError: "no", said')
    assert (third["outcome.error"], third["outcome.verdict"]) == (None, None)
    assert (last["victim.settings.first_scale"], last["data.dim"], last["state"]) == (0.5, None, "waiting")
    assert first["key"] == records[0].cell.key
    assert not any("pictures" in name for name in first)


def test_csv_and_parquet_say_the_same(records, tmp_path):
    assert write(tmp_path / "table.csv", records) == write(tmp_path / "table.parquet", records) == 32
    with (tmp_path / "table.csv").open(newline="") as file:
        text = list(csv.DictReader(file))
    typed = parquet.read_table(tmp_path / "table.parquet").to_pylist()
    assert list(text[0]) == list(typed[0])
    for words, values in zip(text, typed, strict=True):
        assert words == {name: "" if value is None else str(value) for name, value in values.items()}


def test_parquet_columns_have_types_also_where_nothing_is_known_yet(records, tmp_path):
    write(tmp_path / "some.parquet", records)
    write(tmp_path / "none.parquet", records[3:])
    some, none = (parquet.read_schema(tmp_path / name) for name in ("some.parquet", "none.parquet"))
    expected = {"ratio": "double", "seed": "int64", "outcome.error": "double", "error": "string", "data.dim": "int64"}
    expected |= {"outcome.signs_determined": "bool", "attack.num_samples": "string", "outcome.drift": "double"}
    assert {name: str(some.field(name).type) for name in expected} == expected
    for name in ("outcome.error", "outcome.verdict", "error", "worker", "finished_at", "seconds"):
        assert none.field(name).type == some.field(name).type


def test_other_formats_empty_tables_and_folders_that_are_files_are_refused(records, tmp_path):
    with pytest.raises(InputError, match=r"table.xlsx ends with .xlsx; valid: .csv, .parquet"):
        write(tmp_path / "table.xlsx", records)
    with pytest.raises(InputError, match="no cell to write"):
        write(tmp_path / "table.csv", [])
    for name in ("table.csv", "table.parquet"):
        with pytest.raises(FileError, match=f"cannot write .*{name}"):
            write(tmp_path / "sweep.sqlite" / name, records)


def test_flatten():
    assert flatten({"a": {"b": {"c": 1}, "d": [2, 3]}, "e": None}) == {"a.b.c": 1, "a.d": "2,3", "e": None}


def test_the_summary_takes_means_over_seeds_and_names_what_differs(store):
    cells = GRID.cells()
    for seed in (0, 1):
        cell = cells[16 * seed]
        finished = fake_experiments.outcome(cell, error=0.5 + seed, error_up_to_sign=0.1, recovered=1)
        store.finish(cell.key, Finished(outcome=finished), seconds=1 + seed)
        unsigned = {"error": 1.5, "error_up_to_sign": 0.1, "signs_determined": False, "recovered_up_to_sign": 2}
        finished = fake_experiments.outcome(cells[1 + 16 * seed], **unsigned)
        store.finish(cells[1 + 16 * seed].key, Finished(outcome=finished), seconds=1)
    store.fail(cells[2].key, "no")
    lines = summarise(store.records("a"))
    assert len(lines) == 16
    signed, unsigned, failed, *_ = lines
    assert (signed.cells, signed.done, signed.error, signed.recovered, signed.seconds) == (2, 2, 1.0, 0.5, 1.5)
    assert (unsigned.error, unsigned.recovered) == (pytest.approx(0.1), 1.0)
    assert (failed.done, failed.failed, failed.error, failed.recovered) == (0, 1, None, None)
    assert list(signed.settings)[:4] == ["data.name", "victim.kind", "ratio", "attack.method"]
    assert "attack.num_samples" in signed.settings
    assert not {"victim.dtype", "victim.stable", "seed"} & set(summarise(store.records("a")[:2])[0].settings)
