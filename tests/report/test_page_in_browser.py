"""The page of a report in a real browser, opened from disk with the network off."""

import contextlib
import csv
import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exhume.report import Level, Report, page
from exhume.report import chart_style as svg
from exhume.report.html_table import NOTHING


@pytest.fixture
def opened(browser, tmp_path) -> Iterator[Callable]:
    """Opens a report offline; at the end there must have been no request, no error and no refused load."""
    complaints: list[str] = []
    with contextlib.ExitStack() as stack:

        def open_page(report: Report, **options):
            path = tmp_path / "report.html"
            page.write(report, path)
            context = browser.new_context(**options)
            stack.callback(context.close)
            context.set_offline(True)
            tab = context.new_page()
            tab.on("console", lambda message: complaints.append(message.text))
            tab.on("pageerror", lambda error: complaints.append(str(error)))
            tab.on("request", lambda request: _note_request(request.url, complaints))
            tab.goto(path.as_uri())
            return tab

        yield open_page
        assert complaints == []


def _note_request(url: str, complaints: list[str]) -> None:
    if not url.startswith(("file:", "data:", "blob:")):
        complaints.append(f"asked for {url}")


def _column(table, place: int) -> list[str]:
    return [text.strip() for text in table.locator(f"tbody td:nth-child({place})").all_inner_texts()]


def _saved(tab, button) -> str:
    with tab.expect_download() as waiting:
        button.click()
    return Path(waiting.value.path()).read_bytes().decode("utf-8")


def test_a_table_is_sorted_by_value_either_way_with_nothing_last(opened, full_report):
    tab = opened(full_report)
    table = tab.locator("table", has=tab.get_by_role("button", name="Strength"))
    heading = table.locator("th", has_text="Strength")
    assert heading.get_attribute("aria-sort") is None
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert _column(table, 2) == ["0.01", "0.1", NOTHING, NOTHING]
    heading.get_by_role("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert _column(table, 2) == ["0.1", "0.01", NOTHING, NOTHING]
    table.locator("th", has_text="Training error").get_by_role("button").press("Space")
    assert heading.get_attribute("aria-sort") is None
    assert _column(table, 4) == ["1.20e-4", "0.0101", "0.0231", "0.31"]
    assert _column(table, 1) == ["none", "rounding to int8", "Gaussian noise", "Gaussian noise"]
    table.locator("th", has_text="Defence").get_by_role("button").click()
    assert _column(table, 1) == ["Gaussian noise", "Gaussian noise", "none", "rounding to int8"]


def test_records_are_sorted_by_the_recovered_value(opened, tabular_report):
    tab = opened(tabular_report)
    table = tab.locator("#records table")
    table.locator("th", has_text="age").get_by_role("button").click()
    assert [each.split()[0] for each in _column(table, 4)] == ["25.5", "48.2", "59.1", "73.2"]
    assert [each.split()[-1] for each in _column(table, 4)] == ["24", "48", "59", "72"]


def test_a_slider_moved_by_keyboard_uncovers_the_truth(opened, full_report):
    tab = opened(full_report)
    tab.get_by_role("button", name="Overlay with a slider").click()
    slider = tab.get_by_role("slider", name="Compare recovered sample 3 with true sample 9", exact=True)
    picture = tab.get_by_alt_text("Recovered sample 3, expected error 0.00123")

    def clip() -> str:
        return picture.evaluate("element => getComputedStyle(element).clipPath")

    assert "50%" in clip()
    slider.focus()
    slider.press("ArrowRight")
    assert "49%" in clip()
    slider.press("Home")
    assert "100%" in clip()
    assert slider.get_attribute("aria-valuetext") == "0 % recovered, 100 % true"
    other = tab.get_by_alt_text("Recovered sample 4, expected error 0.00259")
    assert "50%" in other.evaluate("element => getComputedStyle(element).clipPath")


def test_pairs_stand_side_by_side_until_an_overlay_is_asked_for(opened, full_report):
    tab = opened(full_report)
    pair = tab.locator(".pair").first.locator("img")

    def left_edges() -> list[float]:
        return [pair.nth(index).bounding_box()["x"] for index in (0, 1)]

    assert left_edges()[0] < left_edges()[1]
    assert pair.first.evaluate("element => getComputedStyle(element).clipPath") == "none"
    tab.get_by_role("button", name="Overlay with a slider").click()
    assert left_edges()[0] == left_edges()[1]


def test_what_a_failed_attack_returned_is_folded_until_asked_for(opened, full_report):
    tab = opened(dataclasses.replace(full_report, samples_folded=True))
    assert not tab.locator(".card").first.is_visible()
    tab.get_by_text("Show the 12 rows that the attack returned").click()
    assert tab.locator(".card").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colour_of_the_verdict_follows_from_its_level(opened, full_report, scheme):
    """Red, amber, grey and green: nothing is red above "not recovered", and green is for a count alone."""
    tab, colours = None, {}
    for level in (Level.LEAK, Level.PARTIAL, Level.IN_WEIGHTS, Level.INCONCLUSIVE, Level.OUT_OF_REACH):
        verdict = dataclasses.replace(full_report.verdict, level=level)
        tab = opened(dataclasses.replace(full_report, verdict=verdict), color_scheme=scheme)
        shown = tab.locator("#verdict .level").evaluate("element => getComputedStyle(element).color")
        colours[level] = [int(each) for each in re.findall(r"\d+", shown)[:3]]
    red, amber, grey, green = (
        colours[level] for level in (Level.LEAK, Level.IN_WEIGHTS, Level.INCONCLUSIVE, Level.OUT_OF_REACH)
    )
    assert amber == colours[Level.PARTIAL]
    assert red[0] > 1.5 * max(red[1:]) or scheme == "dark"
    assert green[1] > max(green[0], green[2])
    assert max(grey) - min(grey) < 40
    assert len({tuple(each) for each in (red, amber, grey, green)}) == 4


def test_the_downloads_hold_the_report_and_the_table(opened, full_report):
    tab = opened(full_report)
    text = _saved(tab, tab.get_by_role("button", name="JSON of the whole report").first)
    assert json.loads(text) == json.loads(json.dumps(full_report.to_json()))
    rows = list(csv.reader(_saved(tab, tab.get_by_role("button", name="CSV of Defences")).splitlines()))
    assert rows[0] == list(full_report.defence_tables[0].columns)
    assert rows[2] == ["Gaussian noise", "0.01", "7", "0.0231", "false"]
    rows = list(csv.reader(_saved(tab, tab.get_by_role("button", name="CSV of Every sample")).splitlines()))
    assert [float(row[2]) for row in rows[1:]] == [sample.error_bar for sample in full_report.samples]


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_theme_follows_the_system_until_the_button_is_pressed(system, opened, full_report):
    tab = opened(full_report, color_scheme=system)
    button = tab.get_by_role("button", name="Dark theme")

    def is_dark() -> bool:
        return "18, 21, 25" in tab.evaluate("getComputedStyle(document.body).backgroundColor")

    assert is_dark() == (system == "dark")
    assert button.get_attribute("aria-pressed") == str(is_dark()).lower()
    button.click()
    assert is_dark() == (system == "light")
    assert button.get_attribute("aria-pressed") == str(is_dark()).lower()


def test_the_model_card_is_copied(opened, full_report):
    tab = opened(full_report, permissions=["clipboard-read", "clipboard-write"])
    tab.get_by_role("button", name="Copy").click()
    tab.get_by_role("button", name="Copied").wait_for()
    assert tab.evaluate("navigator.clipboard.readText()") == full_report.model_card


def test_the_model_card_is_selected_where_a_page_may_not_copy(opened, full_report):
    tab = opened(full_report)
    tab.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    tab.get_by_role("button", name="Copy").click()
    tab.get_by_role("button", name="Selected").wait_for()
    assert tab.evaluate("getSelection().toString()").strip() == full_report.model_card.strip()


def test_print_hides_controls_and_shows_pairs_in_light(opened, full_report):
    tab = opened(full_report, color_scheme="dark")
    tab.get_by_role("button", name="Dark theme").click()
    tab.get_by_role("button", name="Dark theme").click()
    tab.emulate_media(media="print")
    assert not tab.locator("nav").is_visible()
    assert [each for each in tab.locator("button.button").all() if each.is_visible()] == []
    assert not tab.locator(".split").first.is_visible()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    pair = tab.locator(".pair").first.locator("img")
    assert pair.nth(0).bounding_box()["x"] < pair.nth(1).bounding_box()["x"]


@pytest.mark.parametrize("which", ["full_report", "tabular_report"])
def test_the_page_never_scrolls_sideways(which, opened, request):
    tab = opened(request.getfixturevalue(which))
    for width in (320, 375, 900, 1920):
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_hundreds_of_samples_are_folded_until_asked_for(opened, full_report, many_samples):
    tab = opened(dataclasses.replace(full_report, samples=many_samples(300)))
    cards = tab.locator(".card")
    assert cards.count() == 300
    assert cards.nth(59).is_visible()
    assert not cards.nth(60).is_visible()
    tab.get_by_text("Show all 300 samples").click()
    assert cards.nth(299).is_visible()


def test_the_keyboard_reaches_the_report_past_the_contents(opened, full_report):
    tab = opened(full_report)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the report"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"


def test_without_scripts_everything_is_there_and_dead_controls_are_not(opened, full_report):
    tab = opened(full_report, java_script_enabled=False)
    assert not tab.locator("button.button").first.is_visible()
    assert not tab.locator(".split").first.is_visible()
    pair = tab.locator(".pair").first.locator("img")
    assert pair.nth(0).bounding_box()["x"] < pair.nth(1).bounding_box()["x"]


def test_hostile_words_run_nothing(opened, full_report):
    hostile = "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"
    samples = (dataclasses.replace(full_report.samples[0], label=hostile, true_label=hostile),)
    report = dataclasses.replace(full_report, title=hostile, notes=(hostile,), model_card=hostile, samples=samples)
    tab = opened(report)
    assert tab.title() == f"{hostile} · exhume"
    assert tab.locator("#notes li").inner_text() == hostile


def test_drawings_of_matplotlib_take_the_colours_of_the_theme(opened, full_report):
    with svg.sheet() as (drawing, axis):
        axis.plot([1, 2, 3], [3, 1, 2], color=svg.COLOURS["accent"], label="a curve")
        axis.legend()
        chart = svg.chart(drawing, title="Curve", description="A curve that falls and rises.")
    tab = opened(dataclasses.replace(full_report, charts=(chart,)), color_scheme="light")
    curve = tab.get_by_role("img", name="A curve that falls and rises.").locator("path[style*='--accent']").first

    def colour() -> str:
        return curve.evaluate("element => getComputedStyle(element).stroke")

    assert colour() == "rgb(29, 95, 166)"
    tab.get_by_role("button", name="Dark theme").click()
    assert colour() == "rgb(127, 180, 242)"
