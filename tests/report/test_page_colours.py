"""The colours of the page: enough contrast in both themes."""

import re

import pytest

from exhume.report import page


def _themes() -> tuple[dict[str, str], dict[str, str]]:
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", page._asset("style.css"))
    return {name: light for name, light, _ in pairs}, {name: dark for name, _, dark in pairs}


def _luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_the_guidelines_do():
    assert _contrast("#000000", "#ffffff") == pytest.approx(21)
    assert _contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_every_colour_of_text_stands_out_from_paper_and_cards_in_both_themes():
    roles = {"ink", "muted", "accent", "leak", "partial", "ok", *(f"other-{index}" for index in range(1, 6))}
    for colours in _themes():
        assert set(colours) == roles | {"paper", "card", "line"}
        for role in roles:
            for ground in ("paper", "card"):
                assert _contrast(colours[role], colours[ground]) >= 4.5, (role, ground)


def test_the_dark_theme_is_dark_and_the_light_one_light():
    light, dark = _themes()
    assert _luminance(light["paper"]) > _luminance(light["ink"])
    assert _luminance(dark["paper"]) < _luminance(dark["ink"])
