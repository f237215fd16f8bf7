"""Charts are well-formed, use the page's colours, are identical every time, and escape names."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from subjects import ENOUGH, ROWS, TRUTH, result_of

from exhume.defences import Outcome, Utility
from exhume.law import forecast
from exhume.report.chart_style import COLOURS
from exhume.report.charts import (
    convergence_chart,
    defences_chart,
    error_bars_chart,
    sweep_error_chart,
    sweep_share_chart,
)
from exhume.report.model_charts.law import law_chart
from exhume.report.model_charts.unmix import singular_values_chart, unmix_charts, zeros_chart
from exhume.scoring.against_truth import score

HOSTILE = "<script>alert(1)</script> & \"'$\\frac{1}$ \x00]]>"
SVG = "{http://www.w3.org/2000/svg}"


def outcomes(name="noise", costs=(0.1, 0.2, 0.3)):
    return [
        Outcome("none" if index == 0 else name, f"{name} {index}", index, ROWS - index, ROWS, 0.0, 0.0, "exact",
                Utility(held_out_error=cost))
        for index, cost in enumerate(costs)
    ]  # fmt: skip


RESULT = result_of([1e-6, 1e-5, 1e-4, 0.2], "approximate")
EVIDENCE = {
    "rank": ROWS,
    "fall": 5000.0,
    "singular_values": [4.0, 3.0, 2.0, 1.0, 2e-4, 1e-4, 0.0],
    "zero_shares": [0.3, 0.5, 0.4, 0.35],
    "inactive_before": [1.0, 0.9, 1.0, 0.9],
    "inactive_after": [1.0, 1.0, 1.0, 1.0],
}
UNMIXED = replace(RESULT, method="unmix", evidence=EVIDENCE)
CHARTS = {
    "singular values": lambda name: singular_values_chart(UNMIXED),
    "zeros": lambda name: zeros_chart(UNMIXED),
    "law": lambda name: law_chart(ENOUGH),
    "convergence": lambda name: convergence_chart({name: RESULT, "other": RESULT}),
    "error bars": lambda name: error_bars_chart(RESULT, score(RESULT, TRUTH)),
    "defences": lambda name: defences_chart(outcomes(name)),
    "sweep errors": lambda name: sweep_error_chart({name: [(1, 0.5), (2, 1e-7)]}),
    "sweep shares": lambda name: sweep_share_chart({name: [(1, 0.5), (2, 1.0)]}),
}


@pytest.fixture(params=CHARTS)
def make(request):
    return CHARTS[request.param]


def test_a_chart_is_one_svg_element_with_words_for_those_who_cannot_see_it(make):
    made = make("a name")
    root = ET.fromstring(made.image)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert "viewBox" in root.attrib
    assert "width" not in root.attrib
    assert "height" not in root.attrib
    words = {child.tag: child for child in list(root)[:2]}
    assert words[f"{SVG}title"].text == made.title
    assert words[f"{SVG}desc"].text == made.description
    assert root.get("aria-labelledby").split() == [words[f"{SVG}{name}"].get("id") for name in ("title", "desc")]


def test_a_chart_takes_its_colours_from_the_page(make):
    image = make("a name").image
    assert "var(--ink)" in image
    assert not any(colour in image for colour in COLOURS.values())
    fills = re.findall(r"(?:fill|stroke): (#[0-9a-f]+)", image)
    assert fills == []


def test_a_chart_brings_no_style_element_and_fetches_nothing(make):
    image = make("a name").image
    assert "<style" not in image
    assert "<script" not in image
    links = re.findall(r'href="([^"]*)"', image)
    assert all(link.startswith("#") for link in links)


def test_hostile_names_are_texts(make):
    image = make(HOSTILE).image
    root = ET.fromstring(image)
    assert not list(root.iter(f"{SVG}script"))
    assert "<script>" not in image


def test_hostile_names_are_shown_as_they_are():
    image = convergence_chart({"<b>$x$ & y": RESULT}).image
    assert any(text.text == "<b>$x$ & y" for text in ET.fromstring(image).iter(f"{SVG}text"))


def test_the_same_chart_is_drawn_the_same(make):
    assert make("a name").image == make("a name").image


def test_ids_of_several_charts_differ():
    ids = [found for make in CHARTS.values() for found in re.findall(r'\bid="([^"]+)"', make("a name").image)]
    assert len(ids) == len(set(ids))
    for make in CHARTS.values():
        image = make("a name").image
        own = set(re.findall(r'\bid="([^"]+)"', image))
        assert set(re.findall(r'href="#([^"]+)"', image)) | set(re.findall(r"url\(#([^)]+)\)", image)) <= own


@pytest.mark.parametrize(
    "sizes",
    [(400, 16, 4), (20, 16, 4), (2, 16, 4), (720_000, 64, 5, 1000, "gelu"), (3_000_000, 2, 1), (7200, 64, 5, 10)],
)
def test_the_law_names_the_zone_of_the_model_and_its_place(sizes):
    found = forecast(*sizes)
    made = law_chart(found)
    assert f"in the zone called {found.verdict}" in made.description
    texts = [text.text or "" for text in ET.fromstring(made.image).iter(f"{SVG}text")]
    assert any(text.startswith("this model: p/dn = ") for text in texts)
    of_each = " of each sample" if found.binding == "per sample" else ""
    assert f"equations exceed unknowns{of_each}: p = {found.smallest_parameters:,}" in texts


def test_error_bars_stand_beside_measured_errors_only_where_the_truth_is_known():
    assert "measured against the truth" in error_bars_chart(RESULT, score(RESULT, TRUTH)).image
    assert "measured against the truth" not in error_bars_chart(RESULT).image


def test_dishonest_error_bars_are_counted():
    wrong = replace(RESULT, samples=TRUTH + 0.5)
    assert (
        "Of 4 measured errors 0 are at most as large as expected, 0 at most 3 times"
        in error_bars_chart(
            replace(wrong, certificate=replace(wrong.certificate, predicted_errors=(1e-6,) * 4)), score(wrong, TRUTH)
        ).caption
    )


def test_an_attack_without_history_or_with_infinite_losses_is_drawn():
    empty = replace(RESULT, history={})
    broken = replace(RESULT, history={"loss": [float("inf"), float("nan"), 0.0], "passes": [0.0, 1.0, 2.0]})
    nowhere = replace(empty, certificate=replace(RESULT.certificate, residual=float("nan"), floor=float("nan")))
    for results in ({"empty": empty, "broken": broken, "nowhere": nowhere}, {"nowhere": nowhere}):
        assert ET.fromstring(convergence_chart(results).image).tag.endswith("svg")


def test_an_axis_too_short_for_two_powers_of_ten_has_other_ticks():
    short = replace(RESULT, passes=9.0, history={"loss": [1.0, 0.9], "passes": [2.0, 8.0]})
    words = ET.fromstring(convergence_chart({"short": short}).image).itertext()
    assert {"2", "5"} <= {word.strip() for word in words}


@pytest.mark.parametrize("costs", [(0.0, 0.0, 0.0), (0.0, 1e-12, 0.5), (1e-30, 1e-3, 0.5), (0.11, 0.11, 0.11)])
def test_defences_are_drawn_whatever_their_costs(costs):
    assert ET.fromstring(defences_chart(outcomes(costs=costs)).image).tag.endswith("svg")


def test_defences_without_costs_have_no_chart():
    assert defences_chart([replace(each, utility=Utility()) for each in outcomes()]) is None
    assert defences_chart([]) is None


def test_the_cost_is_the_held_out_error_else_the_training_error_else_the_change_of_outputs():
    for utility, words in (
        (Utility(0.1, 0.2, 0.3), "held-out error"),
        (Utility(0.1, None, 0.3), "training error"),
        (Utility(None, None, 0.3), "relative change of the outputs"),
    ):
        made = defences_chart([replace(each, utility=utility) for each in outcomes()])
        assert f"{words} of the altered model" in made.image


def test_a_cost_that_is_the_same_for_all_is_passed_over():
    made = defences_chart(
        [replace(each, utility=Utility(0.0, None, index / 10)) for index, each in enumerate(outcomes())]
    )
    assert "relative change of the outputs of the altered model" in made.image


def test_the_fall_of_singular_values_gives_the_number_of_samples_unless_it_was_given():
    caption = singular_values_chart(UNMIXED).caption
    assert "Behind the first 4 they fall by a factor of 5,000" in caption
    assert "it is the number of samples, which need not be known" in caption
    flat = replace(UNMIXED, evidence=EVIDENCE | {"fall": 2.0})
    assert "4 is the number of samples that was given" in singular_values_chart(flat).caption


def test_zeros_are_compared_with_the_inputs_of_their_columns():
    made = zeros_chart(UNMIXED)
    assert "95 % of them before training and 100 % of them after training" in made.caption
    assert "zero on 30 to 50 % of the neurons" in made.description


def test_columns_that_are_missing_leave_zeros_without_inputs():
    partial = {name: value for name, value in EVIDENCE.items() if not name.startswith("inactive")}
    made = zeros_chart(replace(UNMIXED, evidence=partial | {"zero_shares": [0.4]}))
    assert "Columns are missing" in made.caption
    assert "inactive before training" not in made.image


def test_charts_of_unmixing_are_for_unmixing_alone():
    assert [each.title for each in unmix_charts(UNMIXED)] == [
        "How many samples moved the first layer",
        "Zeros of the columns, and the inputs that explain them",
    ]
    assert len(unmix_charts(replace(UNMIXED, evidence=EVIDENCE | {"zero_shares": []}))) == 1
    smooth = {name: EVIDENCE[name] for name in ("rank", "fall", "singular_values")}
    assert [each.title for each in unmix_charts(replace(UNMIXED, evidence=smooth))] == [
        "How many samples moved the first layer"
    ]
    subspace = {"rank": ROWS, "singular_values": [1.0, 0.5]}
    assert unmix_charts(replace(RESULT, method="subspace", evidence=subspace)) == ()


def test_missing_columns_are_not_drawn_as_a_residual():
    lines = [len(re.findall("L ", convergence_chart({"unmix": each}).image)) for each in (UNMIXED, RESULT)]
    assert lines[0] < lines[1]  # the end alone
