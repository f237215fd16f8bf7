"""Maps over (n, p), and galleries: each field and each picture is in its place."""

import numpy as np
import pytest

from exhume.research.paper_figures.galleries import gallery, rows_of
from exhume.research.paper_figures.maps import median_errors, phase_panel, samples_panel
from exhume.research.paper_figures.style import figure


def test_fields_are_median_errors(record):
    records = [record(p=1200, error=error, seed=seed) for seed, error in enumerate((1e-6, 1e-4, 0.5))]
    assert median_errors(records) == {(20, 1200): pytest.approx(-4)}


def test_a_map_has_a_field_for_every_pair_around_it_and_both_lines(record):
    pairs = [(n, ratio * 30 * n) for n in (4, 8, 16) for ratio in (1, 2, 4)]
    axis = figure()[1][0]
    phase_panel(axis, [record(p=p, n=n, error=1e-6 if p > 40 * n else 1.0) for n, p in pairs])
    boxes = [each.get_coordinates() for each in axis.collections]
    assert len(boxes) == len(pairs)
    for (n, p), box, mesh in zip(pairs, boxes, axis.collections, strict=True):
        assert box[..., 0].min() < n < box[..., 0].max()
        assert box[..., 1].min() < p < box[..., 1].max()
        assert mesh.get_array().item() == pytest.approx(-6 if p > 40 * n else 0)
    slopes = {each.get_label(): each.get_ydata()[0] / each.get_xdata()[0] for each in axis.lines}
    assert slopes == pytest.approx({"p = n": 1, "p = dn, d = 30": 30})
    assert axis.get_xscale() == axis.get_yscale() == "log"


def test_a_map_of_nothing_is_empty(record):
    axis = figure()[1][0]
    phase_panel(axis, [record(state="failed")])
    assert not axis.collections


def test_errors_of_samples_are_sorted(record, pictures):
    axis = figure()[1][0]
    samples_panel(axis, [record(pictures=pictures(3, errors=[0.3, 0.1, 0.2])), record("descent")])
    (line,) = axis.lines
    assert list(line.get_ydata()) == pytest.approx([0.1, 0.2, 0.3])


def shown(drawing):
    """The pictures of a sheet with the words under them, row by row; None for empty places."""
    places = [(each.images[0].get_array() if each.images else None, each.get_title()) for each in drawing.axes]
    columns = drawing.axes[0].get_gridspec().ncols
    return [places[start : start + columns] for start in range(0, len(places), columns)]


def test_a_gallery_has_the_truth_above_and_a_row_for_each_attack(record, pictures):
    records = [record("descent", pictures=pictures(5, flipped=(1,), errors=[0.1] * 5)), record(pictures=pictures(5))]
    drawing = gallery(records, columns=3, title="five digits")
    rows = shown(drawing)
    assert len(rows) == 6  # two blocks of three rows
    for column in range(3):
        truth, theirs, ours = (rows[line][column] for line in range(3))
        np.testing.assert_array_equal(truth[0], ours[0])
        np.testing.assert_array_equal(truth[0], theirs[0])  # turned to the true sign
        assert (truth[1], theirs[1], ours[1]) == ("", "1.0e-01", f"1.0e-0{column + 1}")
    assert rows[3][2][0] is None  # five pictures in rows of three
    names = [each.get_text() for axis in drawing.axes for each in axis.texts]
    assert names == ["truth", "descent (paper)", "exact (ours)"] * 2
    assert drawing.get_suptitle() == "five digits"


def test_signs_as_found_are_drawn_and_told(record, pictures):
    rows = shown(gallery([record("descent", pictures=pictures(3, flipped=(1,)))], signs="as found"))
    (_, first), (turned, words), _ = rows[1]
    assert first == "1.0e-01"
    assert words == "1.0e-02, sign"
    assert abs(turned - rows[0][1][0]).max() > 0.1


def test_a_true_picture_without_a_match_leaves_its_place_empty(record, pictures):
    few, all_of_them = record(pictures=pictures(2)), record(pictures=pictures(4, seed=0), p=2400)
    names = {1200: "n - 2 rows", 2400: "n rows"}
    rows = shown(gallery([few, all_of_them], rows=lambda each: names[each.outcome.num_parameters]))
    # The generator draws the same first pictures for both.
    assert [picture is not None for picture, _ in rows[0]] == [True] * 4
    assert [picture is not None for picture, _ in rows[1]] == [True, True, False, False]


def test_rows_beyond_the_samples_are_drawn_on_request(record, pictures):
    records = [record(pictures=pictures(4, extras=2))]
    assert len(shown(gallery(records))) == 2
    rows = shown(gallery(records, extras=True))
    assert [picture is not None for picture, _ in rows[2]] == [True, True, False, False]


def test_the_smallest_seed_is_drawn(record, pictures):
    records = [record(seed=seed, pictures=pictures(1, errors=[10.0 ** -(seed + 1)])) for seed in (2, 1, 3)]
    (row,) = rows_of(records, "turned", lambda each: each.cell.attack.method)
    assert row.words == ("1.0e-02",)


def test_a_gallery_without_pictures_says_so(record):
    drawing = gallery([record(), record(state="failed")], title="none")
    assert "no pictures" in drawing.axes[0].texts[0].get_text()
