"""The registry: every figure of the paper once, each with experiments that can be run, drawn and described."""

import math
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from cell_keys import cell_keys, recorded

from exhume.errors import InputError
from exhume.research.paper_figures import FIGURES, Scale, find
from exhume.research.paper_figures.definition import Figure
from exhume.research.paper_figures.run import data_of, expected_minutes
from exhume.sweep.grid import Grid

IN_THE_PAPER = [f"fig{number}" for number in range(1, 18)]
PICTURES = {"cifar10", "tiny-imagenet"}
CELLS = recorded()

every_figure = pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)


def test_figures_1_to_17_are_there_each_once_and_in_order():
    assert [name for name, figure in FIGURES.items() if not figure.beyond] == IN_THE_PAPER
    assert all(figure.name == name for name, figure in FIGURES.items())
    assert any(figure.beyond for figure in FIGURES.values())


@every_figure
def test_both_scales_have_cells_and_words(figure):
    assert figure.beyond or figure.paper is not None
    for name, scale in figure.scales().items():
        cells = scale.cells()
        assert len({cell.key for cell in cells}) == len(cells) > 0, name
        assert scale.protocol
        assert scale.minutes > 0
    assert figure.title
    assert figure.shows
    assert figure.claim
    assert figure.drawings()


@pytest.mark.parametrize("sweep", CELLS)
def test_the_cells_keep_their_keys(sweep):
    name, scale = sweep.rsplit("-", 1)
    assert cell_keys(FIGURES[name].scale(scale)) == CELLS[sweep]


def test_the_cells_of_every_figure_and_scale_are_compared():
    assert {figure.sweep(scale) for figure in FIGURES.values() for scale in figure.scales()} == CELLS.keys()


@every_figure
def test_both_methods_stand_side_by_side(figure):
    methods = {cell.attack.method for cell in figure.laptop.cells()}
    assert figure.beyond or {"descent", "exact"} <= methods


def test_laptop_figures_end_in_time():
    minutes = {name: figure.laptop.minutes for name, figure in FIGURES.items()}
    assert max(minutes.values()) <= 8, minutes
    assert expected_minutes(FIGURES.values(), "laptop") <= 100, minutes


def test_cells_that_figures_share_take_their_time_once():
    one = FIGURES["fig3"]
    assert expected_minutes([one, one], "laptop") == pytest.approx(one.laptop.minutes)
    assert expected_minutes([one, FIGURES["fig4"]], "laptop") > one.laptop.minutes


@every_figure
def test_the_caption_states_the_size(figure):
    words = figure.laptop.protocol
    assert re.search(r"\b(samples|per_class) \d", words), words
    for cell in figure.laptop.cells():
        for name, value in cell.data.options.items():
            assert f"{name} {value}" in words
    assert "seeds " in words


@every_figure
def test_pictures_that_may_not_be_redistributed_are_known(figure):
    shows_pictures = figure.gallery is not None or figure.draw is None
    restricted = any(data_of(figure, scale) & PICTURES for scale in figure.scales())
    if shows_pictures and restricted:
        assert figure.pictures_of
    if figure.pictures_of:
        pictures = [suffix for suffix in figure.drawings() if not figure.may_be_shown(suffix)]
        assert len(pictures) == 1


@every_figure
def test_figures_are_drawn_and_told_from_records_of_their_own_cells(figure, record, pictures):
    records = [fake(record, pictures, cell) for cell in figure.laptop.cells()]
    halves = [replace(each, state="failed", outcome=None) if index % 2 else each for index, each in enumerate(records)]
    for some in (records, halves, records[:1]):
        for draw in figure.drawings().values():
            assert draw(some).axes
        words = figure.findings(some)
        assert words.strip()
        assert "nan" not in words.lower()


def fake(record, pictures, cell):
    """A done record of this very cell, with numbers as the law has it."""
    p = cell.features or max(1, math.ceil(600 * cell.ratio))
    error = 1e-5 if p > 900 and cell.attack.method != "descent" else 0.8
    made = record(cell.attack.method, p, error, seed=cell.seed, predicted_error=1e-5)
    shown = pictures(4, extras=1) if cell.data.name != "sphere" else None
    return replace(made, cell=cell, read_pictures=lambda: shown)


def test_names_mean_figures():
    assert find("3") == find("fig3") == find("fig03") == (FIGURES["fig3"],)
    assert find("all") == tuple(FIGURES.values())
    assert all(figure.beyond for figure in find("beyond"))
    for wrong in ("18", "fig0", "figure3", "", "page"):
        with pytest.raises(InputError, match=r"unknown figure .*; valid: fig1, .*fig17, .*beyond, all"):
            find(wrong)


def test_a_scale_that_a_figure_lacks_names_those_it_has():
    figure = Figure("own", "a", "b", "c", laptop=Scale((), 1), paper=None, findings=lambda _: "")
    with pytest.raises(InputError, match="own has no scale 'paper'; valid: laptop"):
        figure.scale("paper")


def test_cells_that_two_grids_share_are_there_once():
    sphere = {"name": "sphere", "dim": 5, "samples": 2}
    grids = tuple(Grid(name="one", data=sphere, ratio=ratios, attack="exact") for ratios in ([2, 4], [4, 8]))
    assert [cell.ratio for cell in Scale(grids, 1).cells()] == [2, 4, 8]


def test_importing_exhume_loads_neither_torch_nor_the_figures():
    loaded = "import sys, exhume; print(*(name for name in sys.modules if name.split('.')[0] in ('torch', 'exhume')))"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["exhume"]
