"""The explorer of the law computes in the browser what `exhume law --json` computes, offline."""

import json
import random
import re
import runpy
from pathlib import Path

import pytest

from exhume import forecast
from exhume.law import HOMOGENEITY
from exhume.planning import GPU, plan

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "law_explorer.html"
BUILDER = runpy.run_path(str(ROOT / "docs" / "build_explorer.py"))
NUMBERS = (
    "num_parameters", "equations", "unknowns", "verdict", "smallest_parameters", "comfortable_parameters",
    "largest_samples", "active_share", "equations_per_sample", "unknowns_per_sample", "binding", "ratio", "margin",
)  # fmt: skip
COSTS = ("coordinates", "passes", "flops", "matrix_bytes")
CASES = 400


def settings(count):
    """Presets, and sizes drawn log-uniformly over the ranges of the sliders, close to the wall half of the time."""
    draw = random.Random(0)
    cases = [case["settings"] for case in BUILDER["constants"]()["presets"].values()]
    while len(cases) < count:
        d, n, k = (round(10 ** draw.uniform(0, most)) for most in (5.3, 5.5, 3))
        activation = draw.choice(list(HOMOGENEITY))
        wall = forecast(k, d, n, k, activation).smallest_parameters // k
        width = round(wall * 10 ** draw.uniform(-0.3, 0.8)) if draw.random() < 0.5 else round(10 ** draw.uniform(0, 8))
        if 1 <= width <= 10**8:
            cases.append({"dim": d, "samples": n, "width": width, "outputs": k, "activation": activation})
    return cases


@pytest.fixture
def explorer(browser):
    complaints = []
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("request", lambda asked: complaints.append(asked.url) if not asked.url.startswith("file:") else None)
    page.goto(PAGE.as_uri())
    yield page
    context.close()
    assert complaints == []


def test_the_constants_of_the_page_are_those_of_the_library():
    text = re.search(r'id="constants">(.*?)</script>', PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)[1]
    assert json.loads(text) == BUILDER["constants"](), "the explorer is not up to date; run: make docs"


def test_many_settings_have_the_numbers_of_the_library(explorer):
    cases = settings(CASES)
    found = explorer.evaluate("cases => cases.map(forecast)", cases)
    for case, shown in zip(cases, found, strict=True):
        p = case["width"] * case["outputs"]
        law = forecast(p, case["dim"], case["samples"], case["outputs"], case["activation"])
        for name in NUMBERS:
            value = getattr(law, name)
            expected = pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
            assert shown[name] == expected, (case, name)
        cost = plan(p, case["dim"], case["samples"], case["outputs"], GPU, case["activation"]).cost
        assert (shown["cost"] is None) == (cost is None)
        for name in COSTS if cost is not None else ():
            assert shown["cost"][name] == pytest.approx(getattr(cost, name), rel=1e-9), (case, name)
    assert {each["verdict"] for each in found} == {"not even labels", "labels only", "grey zone", "reconstructible"}
    assert {each["binding"] for each in found} == {"together", "per sample"}


def test_sliders_presets_and_numbers_drive_the_page(explorer, exhume_json):
    explorer.get_by_role("button", name="ResNet-18").click()
    assert explorer.locator("#width").input_value() == "512"
    assert explorer.locator("#verdict").inner_text() == "Not even labels"
    explorer.locator("#samples").fill("2")
    explorer.locator("#dim").fill("100")
    _, law = exhume_json("law", "--parameters", 5120, "--dim", 100, "--samples", 2, "--outputs", 10)
    assert explorer.locator("#verdict").inner_text().lower() == law["verdict"]
    assert f"{law['smallest_parameters']:,}" in explorer.locator("#numbers").inner_text()
    explorer.locator("#samples-slider").fill("3")
    assert explorer.locator("#samples").input_value() == "1000"
    explorer.locator("#activation").select_option("gelu")
    assert "--activation gelu" in explorer.locator("#command").inner_text()


def test_noise_raises_the_expected_error(explorer):
    explorer.get_by_role("button", name="The paper's Figure 1").click()
    before = explorer.evaluate("predictedError(forecast(state), 0)")
    explorer.locator("#noise").fill("0.01")
    after = explorer.evaluate("predictedError(forecast(state), state.noise)")
    assert before == [1e-7, 3e-6]
    assert after == pytest.approx([0.008, 0.05])
    assert "0.008 to 0.05" in explorer.locator("#numbers").inner_text()
    explorer.locator("#noise").fill("0.5")
    assert "may prevent it" in explorer.locator("#error-note").inner_text()
    explorer.locator("#width").fill("300")
    assert "not known" in explorer.locator("#numbers").inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1280, "dark")])
def test_the_page_fits_the_screen(browser, width, scheme):
    context = browser.new_context(offline=True, viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    page.goto(PAGE.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    context.close()
