"""`exhume sweep`: run, status and export, from a file of YAML to a table."""

import csv

import pytest

from exhume.cli import render
from exhume.sweep import SweepProgress
from exhume.sweep import run as running
from exhume.sweep.store import Store

GRID = """
name: small
data: {name: sphere, dim: 8, samples: 2}
ratio: [6, 8]
attack: [exact, {method: descent, max_steps: 20}]
"""


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


@pytest.fixture
def run(exhume_json, in_process_scheduler):
    return lambda *words: exhume_json("sweep", "run", *words, "--scheduler", in_process_scheduler)


def test_run_status_and_export(grid, run, exhume_command, exhume_json, tmp_path):
    code, value = run(grid)
    assert (code, value["store"]) == (0, str(tmp_path / "grid.sqlite"))
    (swept,) = value["sweeps"]
    assert (swept["name"], swept["total"], swept["done"], swept["failed"], swept["waiting"]) == ("small", 4, 4, 0, 0)
    assert set(swept) == {"name", "total", "done", "failed", "waiting", "seconds", "failures", "lines"}
    exact, descent, *_ = swept["lines"]
    assert exact["settings"] | {"attack.max_steps": None} == exact["settings"]
    assert (exact["settings"]["ratio"], exact["settings"]["attack.method"], exact["recovered"]) == (6.0, "exact", 1.0)
    assert exact["error"] < 1e-5 < descent["error"]

    assert run(grid)[1] == value  # nothing is computed again
    assert exhume_json("sweep", "status", grid) == (0, value)
    assert exhume_json("sweep", "status", tmp_path / "grid.sqlite") == (0, value)
    code, out, _ = exhume_command("sweep", "status", grid)
    head, columns, _, first, *_, last = out.splitlines()
    assert head.startswith("small: 4 of 4 cells done, 0 failed, 0 waiting, ")
    assert columns.split()[:4] == ["data.name", "victim.kind", "ratio", "attack.method"]
    assert first.split()[:4] == ["sphere", "rf", "6", "exact"]
    assert "100%" in first
    assert last == f"store: {tmp_path / 'grid.sqlite'}"

    code, value = exhume_json("sweep", "export", grid, "--out", tmp_path / "table.csv")
    assert (code, value["cells"]) == (0, 4)
    with (tmp_path / "table.csv").open(newline="") as file:
        assert [row["attack.method"] for row in csv.DictReader(file)] == ["exact", "descent"] * 2
    words = ("sweep", "export", tmp_path / "grid.sqlite", "--sweep", "small", "--out", tmp_path / "table.parquet")
    assert exhume_command(*words)[:2] == (0, f"wrote 4 cells to {tmp_path / 'table.parquet'}\n")


def test_failed_cells_are_exit_code_1_and_listed(grid, run, exhume_command, tmp_path):
    # descent needs the number of samples there are.
    grid.write_text(GRID.replace("max_steps: 20", "num_samples: estimate"))
    store = tmp_path / "elsewhere" / "s.sqlite"
    code, value = run(grid, "--store", store)
    (swept,) = value["sweeps"]
    assert (code, swept["done"], swept["failed"]) == (1, 2, 2)
    assert "needs the number of samples" in swept["failures"][0]["error"]
    with Store(store, create=False) as first:
        finished_at = first.records("small")[1].finished_at
    assert run(grid, "--store", store)[1] == value  # not computed again
    assert run(grid, "--store", store, "--retry-failed")[0] == 1
    with Store(store, create=False) as again:
        assert again.records("small")[1].finished_at > finished_at
    code, out, _ = exhume_command("sweep", "status", store)
    assert code == 0
    assert "failed: descent on rf, sphere, p = 6dn, seed 0: UnknownCount: " in out


def test_what_is_wrong_is_named_before_anything_is_written(grid, exhume_command, tmp_path):
    grid.write_text(GRID.replace("ratio: [6, 8]", "ratio: [6, -8]").replace("max_steps", "max_step"))
    code, out, err = exhume_command("sweep", "run", grid)
    assert (code, out) == (2, "")
    assert f"{grid} is not a usable grid:\n  ratio[1] is -8; it must be greater than 0\n  attack[1].max_step: " in err
    grid.write_text(GRID.replace("samples: 2", "samples: 0"))
    code, _, err = exhume_command("sweep", "run", grid)
    complaint = "data: samples is 0; valid: a whole number of at least 1"
    assert (code, err) == (2, f"error: {grid} is not a usable grid:\n  {complaint}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["grid.yaml"]


def test_files_that_are_not_there_or_not_stores_are_named(grid, exhume_command, tmp_path):
    for words, message in (
        (("run", tmp_path / "none.yaml"), "none.yaml does not exist"),
        (("status", tmp_path / "none.sqlite"), "none.sqlite does not exist"),
        (("status", grid), "grid.sqlite does not exist"),
        (("export", grid, "--out", "x.csv"), "has not been run"),
        (("run", grid, "--scheduler", "here"), "scheduler is 'here'"),
        (("run", grid, "--workers", 0), "workers is 0"),
    ):
        code, out, err = exhume_command("sweep", *words)
        assert (code, out) == (2, "")
        assert message in err
    assert [path.name for path in tmp_path.iterdir()] == ["grid.yaml"]
    (tmp_path / "text.sqlite").write_text("x" * 5000)
    code, _, err = exhume_command("sweep", "status", tmp_path / "text.sqlite")
    assert code == 2
    assert "text.sqlite is not a sweep store" in err


def test_an_empty_store_has_nothing_to_tell(exhume_command, tmp_path):
    Store(tmp_path / "new.sqlite").close()
    assert exhume_command("sweep", "status", tmp_path / "new.sqlite")[1].startswith("no sweep yet")
    code, _, err = exhume_command("sweep", "export", tmp_path / "new.sqlite", "--out", tmp_path / "t.csv")
    assert code == 2
    assert "no cell to write" in err


def test_an_interrupted_run_says_how_to_go_on(grid, run, exhume_command, monkeypatch, in_process_scheduler):
    run_sweep = running.run_sweep

    def interrupted(cells, store, **options):
        def interrupt(event):
            if event.done:
                raise KeyboardInterrupt

        return run_sweep(cells, store, **options | {"progress": interrupt})

    monkeypatch.setattr(running, "run_sweep", interrupted)
    code, out, err = exhume_command("sweep", "run", grid, "--scheduler", in_process_scheduler)
    assert (code, out) == (130, "")
    assert err.endswith("interrupted: 1 of 4 cells are done; run again to go on\n")
    monkeypatch.setattr(running, "run_sweep", run_sweep)
    (swept,) = run(grid)[1]["sweeps"]
    assert (swept["done"], swept["failed"]) == (4, 0)


def test_an_interruption_before_the_first_cell_is_told_too(grid, exhume_command, monkeypatch, in_process_scheduler):
    def interrupted(cells, store, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run_sweep", interrupted)
    code, _, err = exhume_command("sweep", "run", grid, "--scheduler", in_process_scheduler)
    assert (code, err) == (130, "interrupted: no cell is done; run again to go on\n")


def test_every_command_has_an_example(exhume_command):
    for name in ("run", "status", "export"):
        code, out, _ = exhume_command("sweep", name, "--help")
        assert code == 0
        assert f"Example: exhume sweep {name} " in " ".join(out.split())


def test_progress_is_told_in_plain_lines_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(render, "_PLAIN_EVERY", 0.0)
    with render.sweep_progress("law") as update:
        update(SweepProgress(9, 2, 0, 2, 2, None, ""))
        update(SweepProgress(9, 3, 0, 2, 2, 42.0, "done: a cell"))
        update(SweepProgress(9, 3, 1, 1, 2, 5400.0, "failed: a cell: no"))
    assert capsys.readouterr().err.splitlines() == [
        "law: 2 of 9 cells, 2 under way",
        "law: 3 of 9 cells, 2 under way, about 42 s left",
        "law: failed: a cell: no",
        "law: 4 of 9 cells, 1 failed, 1 under way, about 90 min left",
    ]
