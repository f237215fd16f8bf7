"""Published figures and the results page: complete, with captions, and identical every time."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Drawing

from exhume.research import paper_figures as figures
from exhume.research.paper_figures import Figure, Scale, captions
from exhume.research.paper_figures.galleries import gallery
from exhume.research.paper_figures.panels import line
from exhume.research.paper_figures.run import publish, write_page
from exhume.research.paper_figures.statistics import claimed_error, num_parameters, series
from exhume.sweep.experiment import Finished
from exhume.sweep.grid import Grid
from exhume.sweep.store import Store

STORE_OF_0_1_0 = Path(__file__).parents[2] / "fixtures" / "0.1.0" / "reproduce.sqlite"
FOUND_BY_0_1_0 = (
    "Mean error: p = 2dn: float64 2.5e-13, float32 7.9e-07, float16 9.3e-04, bfloat16 9.1e-03, int8 6.2e-02; p"
    " = 5dn: float64 3.2e-13, float32 3.5e-07, float16 4.5e-04, bfloat16 3.6e-03, int8 2.0e-02; p = 20dn: "
    "float64 8.7e-14, float32 1.3e-07, float16 1.7e-04, bfloat16 1.3e-03, int8 8.5e-03. Ended by a limit of "
    "steps or passes: exact (ours) in 5 of 45 runs."
)
VERSIONS = {"exhume": "0.1.0", "torch": "2.9"}


def draw(records):
    drawing = Drawing(figsize=(2, 1))
    line(drawing.subplots(), series(records, num_parameters, claimed_error), label="errors", colour="red")
    return drawing


def tiny(name, *, data="sphere", seeds=2, **more):
    spec = {"name": "sphere", "dim": 30, "samples": 20} if data == "sphere" else {"name": data, "samples": 20}
    grid = Grid(name="d = 30, n = 20", data=spec, features=[600, 1200], attack="exact", seeds=seeds)
    scale = Scale((grid,), 0.5, note="a note | of two parts")
    words = {"title": f"the {name} one", "shows": "Errors against p.", "claim": "Errors fall at dn. Always."}
    found = {"findings": lambda records: f"Mean of {len(records)} cells. And more."}
    return Figure(name, laptop=scale, paper=replace(scale, minutes=600.0), draw=draw, **words, **found, **more)


@pytest.fixture
def registry(monkeypatch):
    """Three figures instead of the paper's: one of them with pictures, one beyond."""
    chosen = {
        "fig1": tiny("fig1"),
        "fig2": tiny("fig2", data="digits", gallery=gallery, pictures_of="digits"),
        "depths": tiny("depths", seeds=3, beyond=True),
    }
    monkeypatch.setattr(figures, "FIGURES", chosen)
    return chosen


@pytest.fixture
def store(tmp_path, registry, record, pictures):
    """A store in which the first two figures are done but for one failed cell, and the third is not run."""
    with Store(tmp_path / "store.sqlite") as opened:
        for figure in list(registry.values())[:2]:
            cells = figure.laptop.cells()
            opened.register(figure.sweep("laptop"), cells)
            for index, cell in enumerate(cells):
                if figure.name == "fig1" and index == 3:
                    opened.fail(cell.key, "InputError: too large\nTraceback ...", seconds=1.0, versions=VERSIONS)
                    continue
                shown = pictures(4) if figure.gallery else None
                finished = Finished(outcome=record(p=cell.features, seed=cell.seed).outcome, pictures=shown)
                opened.finish(cell.key, finished, seconds=2.0, versions=VERSIONS)
        yield opened


def everything(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_figure_is_published_whole(tmp_path, registry, store):
    done = publish(registry["fig2"], "laptop", store.records("fig2-laptop"), tmp_path / "figs")
    names = {path.name for path in done.files}
    ends = (".png", ".svg", "-gallery.png", "-gallery.svg", ".csv", ".json", ".md")
    assert names == {f"fig2-laptop{end}" for end in ends} == {path.name for path in (tmp_path / "figs").iterdir()}
    assert (done.cells, done.failed, done.seconds) == (4, 0, 8.0)
    rows = list(csv.DictReader((tmp_path / "figs/fig2-laptop.csv").read_text().splitlines()))
    assert [int(row["outcome.num_parameters"]) for row in rows] == [600, 1200, 600, 1200]
    value = json.loads((tmp_path / "figs/fig2-laptop.json").read_text())
    assert [each["configuration"] for each in value["runs"]] == [
        cell.to_json() for cell in registry["fig2"].laptop.cells()
    ]
    assert value["versions"] == {"exhume": ["0.1.0"], "torch": ["2.9"]}
    assert (value["cells"], value["done"], value["failed"]) == (4, 4, 0)


def test_publishing_again_changes_no_byte(tmp_path, registry, store):
    for folder in ("one", "two"):
        for name in ("fig1", "fig2"):
            publish(registry[name], "laptop", store.records(f"{name}-laptop"), tmp_path / folder)
    assert everything(tmp_path / "one") == everything(tmp_path / "two")


def test_failed_cells_are_told_in_the_drawing_and_in_the_caption(tmp_path, registry, store):
    done = publish(registry["fig1"], "laptop", store.records("fig1-laptop"), tmp_path)
    assert done.failed == 1
    words = (tmp_path / "fig1-laptop.md").read_text()
    assert "1 of 4 cells failed" in words
    assert "InputError: too large" in words
    assert "Traceback" not in words
    assert "<!-- 1 of 4 cells failed -->" in (tmp_path / "fig1-laptop.svg").read_text()


def test_a_figure_all_of_whose_cells_failed_says_so(tmp_path, registry, record):
    records = [record(state="failed", seed=seed) for seed in range(4)]
    publish(registry["fig2"], "laptop", records, tmp_path)
    assert "Nothing: 4 of 4 cells failed." in (tmp_path / "fig2-laptop.md").read_text()
    assert "nothing to draw" in (tmp_path / "fig2-laptop.svg").read_text()


def test_the_caption_has_the_exact_configuration(registry, store):
    words = captions.caption(registry["fig1"], "laptop", store.records("fig1-laptop"), ["fig1-laptop.png"])
    assert "# Figure 1: the fig1 one" in words
    assert "**Protocol (laptop scale).**\n\n- d = 30, n = 20: sphere" in words
    assert "- a note | of two parts" in words
    assert "sphere (dim 30, samples 20); rf; p = 600, 1200; exact; seeds 0, 1" in words
    assert "exhume reproduce fig1 --scale laptop" in words
    assert "with exhume 0.1.0, torch 2.9: 3 of 4 cells done in 7 s of computing" in words
    assert "one standard deviation" in words


def test_the_page_has_every_figure_and_is_the_same_every_time(tmp_path, registry, store):
    written = write_page(store, tmp_path / "one" / "reproduction.md")
    write_page(store, tmp_path / "two" / "reproduction.md")
    assert everything(tmp_path / "one") == everything(tmp_path / "two")
    assert written.missing == ("depths",)
    words = written.page.read_text()
    assert "| [Figure 1](#figure-1-the-fig1-one) | Errors fall at dn. | Mean of 4 cells. | 4 | 7 s |" in words
    assert "| [depths](#the-depths-one) | Errors fall at dn. | not run yet | | |" in words
    for figure in registry.values():
        assert f"\n## {figure.heading}\n" in words
        assert f"`exhume reproduce {figure.name} --scale laptop`" in words
    assert "Protocol at laptop scale, expected to take 30 s on two cores:\n\n- d = 30, n = 20: sphere" in words
    assert "Protocol at the paper's scale, expected to take 10 h on two cores:\n\n- d = 30, n = 20: sphere" in words
    assert "| the paper's claim | found |" in words


def test_links_and_pictures_of_the_page_lead_somewhere(tmp_path, store):
    written = write_page(store, tmp_path / "docs" / "reproduction.md")
    words = written.page.read_text()
    headings = {captions.anchor(heading) for heading in re.findall(r"^## (.*)$", words, flags=re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]+)\)", words)) == headings
    shown = {Path(name) for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", words)}
    assert {tmp_path / "docs" / path for path in shown} == set(written.pictures)
    assert all(path.exists() for path in written.pictures)


def test_pictures_that_may_not_be_redistributed_stay_out(tmp_path, store):
    write_page(store, tmp_path / "docs" / "reproduction.md")
    names = {path.name for path in (tmp_path / "docs/images/reproduction").iterdir()}
    assert names == {"fig1.png", "fig2.png"}  # its plot, without its gallery
    assert "Pictures of digits are not redistributed" in (tmp_path / "docs/reproduction.md").read_text()


def test_a_gallery_alone_stays_out_too_and_leaves_its_numbers(tmp_path, registry, store):
    registry["fig2"] = replace(registry["fig2"], draw=None)
    write_page(store, tmp_path / "reproduction.md")
    assert {path.name for path in (tmp_path / "images/reproduction").iterdir()} == {"fig1.png", "fig2-errors.png"}


def test_a_figure_half_run_is_not_on_the_page(tmp_path, registry, store):
    store.retry("fig1-laptop")
    assert write_page(store, tmp_path / "reproduction.md").missing == ("fig1", "depths")


def test_a_figure_whose_cells_others_have_run_is_on_the_page(tmp_path, registry, store):
    registry["depths"] = tiny("depths", beyond=True)
    assert write_page(store, tmp_path / "reproduction.md").missing == ()


def test_a_figure_that_was_run_with_other_cells_is_not_on_the_page(tmp_path, registry, store):
    registry["fig1"] = tiny("fig1", seeds=4)
    assert write_page(store, tmp_path / "reproduction.md").missing == ("fig1", "depths")


def test_the_figures_of_a_store_of_version_0_1_0_are_drawn(tmp_path):
    """The store has all cells of `precision`, and what version 0.1.0 said of them is known."""
    path = tmp_path / "reproduce.sqlite"
    path.write_bytes(STORE_OF_0_1_0.read_bytes())
    figure = figures.FIGURES["precision"]
    with Store(path, create=False) as opened:
        records = opened.records("precision-laptop")
        assert [record.cell.key for record in records] == [cell.key for cell in figure.laptop.cells()]
        written = write_page(opened, tmp_path / "docs" / "reproduction.md")
    assert captions.found(figure, records) == FOUND_BY_0_1_0
    assert set(figures.FIGURES) - set(written.missing) == {"precision"}
    assert FOUND_BY_0_1_0 in written.page.read_text()
