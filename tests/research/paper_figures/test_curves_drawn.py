"""Panels: the numbers on the axes are those of the records."""

from dataclasses import replace

import numpy as np
import pytest

from exhume.errors import InputError
from exhume.report.chart_style import legend_below
from exhume.research.paper_figures.panels import FLOOR, precision_panel, step_panel, success_panel, threshold_panel
from exhume.research.paper_figures.statistics import done, failures, series, wilson
from exhume.research.paper_figures.style import figure


@pytest.fixture
def axis():
    return figure()[1][0]


def curve(axis, start):
    """The line whose label starts so."""
    (found,) = [each for each in axis.lines if each.get_label().startswith(start)]
    return dict(zip(found.get_xdata(), found.get_ydata(), strict=True))


def verticals(axis):
    return {
        each.get_xdata()[0] for each in axis.lines if len(set(each.get_xdata())) == 1 and len(each.get_xdata()) == 2
    }


def test_lines_are_means_and_bands_are_one_standard_deviation(axis, record):
    errors = [0.2, 0.4, 0.9]
    records = [record("exact", 1200, error, seed=seed) for seed, error in enumerate(errors)]
    records += [record("exact", 2400, 0.5, seed=seed) for seed in range(3)]
    threshold_panel(axis, records, show=("error",))
    assert curve(axis, "exact") == pytest.approx({1200: 0.5, 2400: 0.5})
    (band,) = axis.collections
    heights = band.get_paths()[0].vertices
    std = np.std(errors, ddof=1)
    assert heights[heights[:, 0] == 1200, 1].min() == pytest.approx(0.5 - std)
    assert heights[heights[:, 0] == 1200, 1].max() == pytest.approx(0.5 + std)
    assert axis.get_xscale() == axis.get_yscale() == "log"


def test_walls_stand_at_n_and_dn(axis, record):
    threshold_panel(axis, [record("exact", p, n=7, d=11) for p in (5, 100)])
    assert verticals(axis) == {7, 77}
    assert {each.get_text() for each in axis.texts} == {"p = n", "p = dn"}


def test_each_method_shows_the_error_that_it_answers_for(axis, record):
    records = [
        record("exact", 1200, 0.7, error_up_to_sign=0.1, signs_determined=True),
        record("descent", 1200, 1.4, error_up_to_sign=0.2, signs_determined=False),
    ]
    threshold_panel(axis, records, show=("error",))
    assert curve(axis, "exact (ours): error, signs included") == {1200: 0.7}
    assert curve(axis, "descent (paper): error up to sign") == {1200: 0.2}


def test_the_training_loss_counts_every_victim_once_and_stays_on_the_axis(axis, record):
    records = [record(method, 20, training_loss=0.3, seed=0) for method in ("exact", "descent", "subspace")]
    records += [record("exact", 20, training_loss=0.6, seed=1), record("exact", 600, training_loss=1e-25)]
    threshold_panel(axis, records)
    assert curve(axis, "training loss") == pytest.approx({20: 0.45, 600: FLOOR})


def test_orthogonal_residuals_are_drawn_on_request(axis, record):
    threshold_panel(axis, [record(p=p, orthogonal_residual=0.25) for p in (600, 1200)], show=("orthogonal_residual",))
    assert curve(axis, "exact (ours): orthogonal residual") == {600: 0.25, 1200: 0.25}
    with pytest.raises(InputError, match="cannot show 'loss'; valid: error, training_loss, orthogonal_residual"):
        threshold_panel(axis, [], show=("loss",))


def test_variants_are_lines_apart_in_tones_of_their_method(axis, record):
    records = [record(error=error, victim={"kind": "rf", "ridge": ridge}) for ridge, error in ((0.0, 0.1), (0.5, 0.2))]
    threshold_panel(axis, records, show=("error",), variants=lambda each: f"ridge {each.cell.victim.ridge:g}")
    assert curve(axis, "exact (ours): error, signs included") == {1200: 0.1}
    assert curve(axis, "_exact (ours): error, signs included where claimed, ridge 0.5") == {1200: 0.2}
    colours = {each.get_color() for each in axis.lines if "exact" in each.get_label()}
    assert len(colours) == 2
    labels = axis.get_legend_handles_labels()[1]
    assert labels == ["exact (ours): error, signs included where claimed", "ridge 0", "ridge 0.5"]


def test_a_band_that_would_pass_zero_ends_at_the_smallest_seed(axis, record):
    threshold_panel(axis, [record(error=error, seed=seed) for seed, error in enumerate((1e-4, 0.9))], show=("error",))
    assert axis.collections[0].get_paths()[0].vertices[:, 1].min() == pytest.approx(1e-4)


def test_ratios_are_those_of_d_n_even_if_a_subspace_was_asked_for(axis, record):
    made = record(p=300)
    asked = made.cell.model_copy(update={"features": None, "ratio": 2.0})
    success_panel(axis, [replace(made, cell=asked)])
    assert list(curve(axis, "exact")) == [0.5]


def test_failed_cells_are_left_out_and_counted(axis, record):
    records = [record(error=0.5), record(error=0.1, seed=1, state="failed"), record(seed=2, state="waiting")]
    threshold_panel(axis, records, show=("error",))
    assert curve(axis, "exact") == {1200: 0.5}
    assert failures(records) == "1 of 3 cells failed"
    assert not failures(done(records))


def test_a_panel_without_results_is_empty(axis, record):
    threshold_panel(axis, [record(state="failed")], title="nothing")
    assert axis.get_title() == "nothing"
    assert not axis.lines


def test_numbers_that_are_not_finite_are_left_out(record):
    found = series(
        [record(error=float("nan")), record(error=0.2, seed=1)],
        lambda each: each.outcome.num_parameters,
        lambda each: each.outcome.error,
    )
    assert found.to_dict("index") == {1200: {"mean": 0.2, "std": 0.0, "min": 0.2, "count": 1, "values": [0.2]}}


def test_settings_of_descent_are_lines_and_exact_is_for_reference(axis, record):
    records = [record("descent", p, steps=steps, seed=s) for p in (600, 1200) for s, steps in enumerate((100, 300))]
    records += [record("exact", p, steps=9) for p in (600, 1200)]
    step_panel(axis, records, "steps", variants=lambda each: f"seed {each.cell.seed}", title="steps")
    assert curve(axis, "descent (paper), seed 1") == {600: 300, 1200: 300}
    assert curve(axis, "exact") == {600: 9, 1200: 9}
    assert axis.get_ylabel() == "steps"


def test_success_is_the_share_below_a_thousandth_with_an_interval(axis, record):
    errors = [1e-6, 2e-6, 0.5, 1e-5]
    records = [record(p=1200, error=error, seed=seed) for seed, error in enumerate(errors)]
    records += [record(p=300, error=0.9, seed=seed) for seed in range(4)]
    success_panel(axis, records, by=lambda each: f"d = {each.outcome.input_dim}")
    assert curve(axis, "d = 30") == {0.5: 0.0, 2.0: 0.75}
    (bars,) = axis.collections
    low, high = wilson(3, 4)
    np.testing.assert_allclose(bars.get_segments()[1][:, 1], [low, high])
    assert 1.0 in verticals(axis)


@pytest.mark.parametrize(
    ("won", "of", "expected"), [(0, 10, (0, 0.2775)), (10, 10, (0.7225, 1)), (5, 10, (0.2366, 0.7634)), (0, 0, (0, 1))]
)
def test_wilson_intervals(won, of, expected):
    assert wilson(won, of) == pytest.approx(expected, abs=1e-4)


def test_precisions_stand_in_order_with_what_was_predicted_beside(axis, record):
    def made(released, error, seed):
        return record(error=error, seed=seed, victim={"kind": "rf", "released": released}, predicted_error=2 * error)

    records = [made("int8", 0.1, 0), made("float16", 0.01, 0), made("float16", 0.03, 1)]
    precision_panel(axis, records, by=lambda each: each.cell.victim.released, order=["float16", "int8"])
    assert curve(axis, "exact (ours): error, signs included") == pytest.approx({0: 0.02, 1: 0.1})
    assert sorted(curve(axis, "exact (ours): error that its").values()) == pytest.approx([0.04, 0.2])
    assert [each.get_text() for each in axis.get_xticklabels()] == ["float16", "int8"]


def test_a_legend_has_every_label_once(record):
    drawing, axes = figure(2)
    for each in axes:
        threshold_panel(each, [record(), record("descent")])
    legend_below(drawing, *axes)
    labels = [each.get_text() for each in drawing.legends[0].get_texts()]
    assert len(labels) == len(set(labels)) == 3
