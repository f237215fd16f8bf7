"""`exhume reproduce`: lists, runs, resumes, publishes and writes the page."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure as Drawing

from exhume import data
from exhume.research import paper_figures as figures
from exhume.research.paper_figures import Figure, Scale
from exhume.research.paper_figures import run as running
from exhume.research.paper_figures.panels import line
from exhume.research.paper_figures.statistics import claimed_error, num_parameters, series
from exhume.sweep import experiment
from exhume.sweep.grid import Grid
from exhume.sweep.run import SweepProgress
from exhume.sweep.store import Store

SPHERE = {"name": "sphere", "dim": 10, "samples": 2}


def draw(records):
    drawing = Drawing(figsize=(2, 1))
    line(drawing.subplots(), series(records, num_parameters, claimed_error), label="errors", colour="red")
    return drawing


def tiny(name, ratios, *, spec=SPHERE, paper=True, **more):
    scale = Scale((Grid(name=name, data=spec, ratio=ratios, attack="exact"),), 0.1)
    words = {"title": f"the {name} one", "shows": "Errors against p.", "claim": "Errors fall."}
    options = {"paper": scale if paper else None, "findings": lambda records: f"{len(records)} cells.", "draw": draw}
    return Figure(name, laptop=scale, **words, **options, **more)


@pytest.fixture
def registry(monkeypatch):
    """Two figures that share a cell, and one beyond the paper."""
    chosen = [tiny("fig1", [10, 20]), tiny("fig2", [20, 40]), tiny("depths", [60], paper=False, beyond=True)]
    found = {each.name: each for each in chosen}
    monkeypatch.setattr(figures, "FIGURES", found)
    return found


class Here:
    """Runs sweeps in this process, and counts; stops as if killed before cell number `stop_at`."""

    def __init__(self):
        self.computed, self.stop_at, self.broken = [], None, False

    def __call__(self, cells, store, *, sweep, progress, retry_failed, workers):
        store.register(sweep, cells)
        if retry_failed:
            store.retry(sweep)
        for cell in [record.cell for record in store.records(sweep) if record.state == "waiting"]:
            if len(self.computed) == self.stop_at:
                raise KeyboardInterrupt
            self.computed.append(cell.key)
            if self.broken and cell.ratio == 40:
                store.fail(cell.key, "RuntimeError: broken", seconds=0.1)
            else:
                store.finish(cell.key, experiment.run(cell), seconds=0.1)
            progress(SweepProgress(1, 1, 0, 0, 1, None, f"done: {cell.title}"))


@pytest.fixture
def here(monkeypatch):
    runner = Here()
    monkeypatch.setattr(running, "run_sweep", runner)
    return runner


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if "sqlite" not in path.name}


def test_figures_are_run_and_published(exhume_json, registry, tmp_path):
    """The only test with real workers."""
    code, value = exhume_json("reproduce", "fig1", "--out", tmp_path, "--workers", 1)
    assert code == 0
    (found,) = value["figures"]
    assert (found["name"], found["cells"], found["failed"]) == ("fig1", 2, 0)
    assert {"fig1-laptop.png", "fig1-laptop.svg", "fig1-laptop.csv", "fig1-laptop.json", "fig1-laptop.md"} == set(
        files_of(tmp_path)
    )
    runs = json.loads((tmp_path / "fig1-laptop.json").read_text())["runs"]
    assert [each["state"] for each in runs] == ["done", "done"]


def test_shared_cells_are_computed_once_and_each_figure_is_published_when_it_is_done(
    exhume_command, registry, here, tmp_path
):
    here.stop_at = 2  # the first figure has two cells
    code, _, err = exhume_command("reproduce", "all", "--out", tmp_path)
    assert code == 130
    assert err.endswith("interrupted: 2 of 4 cells are done; run again to go on\n")
    assert "fig1-laptop.png" in files_of(tmp_path)
    assert "fig2-laptop.png" not in files_of(tmp_path)
    assert f"fig1: {tmp_path / 'fig1-laptop.png'}" in err


def test_a_killed_run_goes_on_and_leaves_the_same_files(exhume_command, registry, here, tmp_path):
    here.stop_at = 3
    assert exhume_command("reproduce", "all", "--out", tmp_path / "killed")[0] != 0
    here.stop_at = None
    code, out, _ = exhume_command("reproduce", "all", "--out", tmp_path / "killed")
    assert code == 0
    assert len(here.computed) == len(set(here.computed)) == 4  # 10, 20, 40 and 60
    assert [line.split()[:2] for line in out.splitlines() if line.startswith(("fig", "depths"))][1:] == [
        ["fig1", "2"],
        ["fig2", "2"],
        ["depths", "1"],
    ]
    before = files_of(tmp_path / "killed")
    store = tmp_path / "killed" / "reproduce.sqlite"
    exhume_command("reproduce", "1", "fig2", "beyond", "--out", tmp_path / "again", "--store", store)
    assert files_of(tmp_path / "again") == before
    assert len(here.computed) == 4


def test_a_store_that_another_run_is_writing_to_is_left_as_it_is(exhume_command, registry, tmp_path):
    with Store(tmp_path / "reproduce.sqlite") as store, store.locked():
        code, _, err = exhume_command("reproduce", "fig1", "--out", tmp_path)
        assert (code, store.sweeps()) == (2, [])
    assert "another run is writing" in err


def test_failed_cells_end_with_code_1_and_may_be_tried_again(exhume_json, registry, here, tmp_path):
    here.broken = True
    code, value = exhume_json("reproduce", "fig2", "--out", tmp_path)
    assert code == 1
    assert value["figures"][0]["failed"] == 1
    assert "1 of 2 cells failed" in (tmp_path / "fig2-laptop.md").read_text()
    here.broken = False
    assert exhume_json("reproduce", "fig2", "--out", tmp_path)[0] == 1  # not tried again unless asked to
    code, value = exhume_json("reproduce", "fig2", "--out", tmp_path, "--retry-failed")
    assert (code, value["figures"][0]["failed"]) == (0, 0)
    assert "failed" not in (tmp_path / "fig2-laptop.md").read_text()


def test_missing_data_are_found_before_anything_runs(exhume_command, registry, here, tmp_path, monkeypatch):
    registry["fig2"] = tiny("fig2", [4], spec={"name": "cifar10", "per_class": 1})
    infos = [replace(each, found=each.name != "cifar10") for each in data.available()]
    monkeypatch.setattr(data, "available", lambda: infos)
    code, _, err = exhume_command("reproduce", "all", "--out", tmp_path / "figs")
    assert code == 2
    assert "data set cifar10 is not on this machine; to get it: " in err
    assert "needed by fig2" in err
    assert "without it: exhume reproduce fig1 depths" in err
    assert not here.computed
    assert not (tmp_path / "figs").exists()
    assert exhume_command("reproduce", "fig1", "--out", tmp_path / "figs")[0] == 0
    # Workers elsewhere may have the data; here they are not, and the cell fails when it is run.
    monkeypatch.setattr(experiment, "run", lambda cell: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        exhume_command("reproduce", "fig2", "--out", tmp_path / "figs", "--scheduler", "tcp://there:8786")


def test_the_papers_scale_says_what_it_costs_and_wants_a_yes(exhume_command, exhume_json, registry, here, tmp_path):
    code, _, err = exhume_command("reproduce", "fig1", "--scale", "paper", "--out", tmp_path)
    assert code == 2
    assert (
        "fig1: 2 cells, about 6 s on two cores. Fig1: sphere (dim 10, samples 2); rf; p/(d n) = 10, 20; exact; seeds 0."
        in err
    )
    assert "add --yes" in err
    assert not here.computed
    code, value = exhume_json("reproduce", "all", "--scale", "paper", "--yes", "--out", tmp_path)
    assert code == 0
    assert [each["name"] for each in value["figures"]] == ["fig1", "fig2"]
    assert value["left_out"] == ["depths"]
    assert (tmp_path / "fig1-paper.png").exists()


def test_a_terminal_is_asked(exhume_command, registry, here, tmp_path, monkeypatch):
    terminal = SimpleNamespace(isatty=lambda: True, readline=lambda: "n\n")
    monkeypatch.setattr("sys.stdin", terminal)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "n")
    code, _, err = exhume_command("reproduce", "fig1", "--scale", "paper", "--out", tmp_path)
    assert code == 1
    assert "Run it?" in err
    assert not here.computed


def test_the_list_has_both_scales_and_times(exhume_command, exhume_json, registry):
    code, out, _ = exhume_command("reproduce", "--list")
    assert code == 0
    assert re.search(r"fig2 +the fig2 one +sphere +6 s +6 s\n", out)
    assert "Errors against p." not in out
    code, out, _ = exhume_command("reproduce", "--list", "fig1")
    for words in ("fig1", "Errors against p.", "laptop", "paper", "About 6 s on two cores"):
        assert words in out
    assert "fig2" not in out
    code, value = exhume_json("reproduce", "--list")
    assert [each["name"] for each in value["figures"]] == ["fig1", "fig2", "depths"]
    assert value["figures"][0]["scales"]["paper"] == {
        "protocol": "fig1: sphere (dim 10, samples 2); rf; p/(d n) = 10, 20; exact; seeds 0",
        "minutes": 0.1,
        "cells": 2,
        "data": ["sphere"],
    }


def test_the_page_is_written_from_the_store(exhume_command, exhume_json, registry, here, tmp_path):
    exhume_command("reproduce", "fig1", "--out", tmp_path)
    store, out = tmp_path / "reproduce.sqlite", tmp_path / "docs" / "reproduction.md"
    code, value = exhume_json("reproduce", "page", "--store", store, "--out", out)
    assert code == 0
    assert value["missing"] == ["fig2", "depths"]
    assert "## Figure 1: the fig1 one" in out.read_text()
    assert (out.parent / "images" / "reproduction" / "fig1.png").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("fig9",), "unknown figure 'fig9'; valid: fig1, fig2, depths, beyond, all"),
        ((), "no figure is named; valid: fig1, fig2, depths, beyond, all, page; or --list"),
        (("fig1", "--scale", "huge"), "unknown scale 'huge'; valid: laptop, paper"),
        (("depths", "--scale", "paper"), "depths has no scale 'paper'; valid: laptop"),
        (("page", "--store", "nowhere.sqlite"), "nowhere.sqlite"),
        (("fig1", "--workers", "0"), "workers is 0; valid: a whole number of at least 1"),
        (("fig1", "--scheduler", "garbage"), "scheduler is 'garbage'; valid: an address"),
    ],
)
def test_bad_words_are_one_error_and_exit_code_2(
    exhume_command, registry, here, tmp_path, monkeypatch, words, complaint
):
    monkeypatch.chdir(tmp_path)
    code, _, err = exhume_command("reproduce", *words)
    assert code == 2
    assert complaint in err
    assert not list(tmp_path.iterdir())
