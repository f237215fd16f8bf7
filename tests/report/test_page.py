"""The page of a report as text: hostile input is escaped, nothing is fetched, empty sections are left out."""

import base64
import dataclasses
import hashlib
import json
import re
import stat
from html.parser import HTMLParser

import pytest

from exhume.errors import InputError
from exhume.report import Chart, Fact, Field, Level, Remedy, Report, Sample, Table, Verdict, page

_VOID = {"meta", "img", "input", "link", "br", "hr"}
_HOSTILE = (
    """</script></style><script>alert("x")</script><img src=//evil.example/x onerror=alert('1')>&amp;{{ 7*7 }}\u2028"""
)


class _Page(HTMLParser):
    """Elements in order, each with its attributes and the text inside it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[tuple[str, list[str]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        words: list[str] = []
        self.elements.append((tag, dict(attrs), words))
        if tag not in _VOID:
            self._open.append((tag, words))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for _, words in self._open:
            words.append(data)

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, "".join(words)) for name, attributes, words in self.elements if name == tag]

    def data(self):
        ((_, text),) = [each for each in self.all("script") if each[0].get("type") == "application/json"]
        return json.loads(text)


def _minimal(**parts) -> Report:
    return Report("Model", Verdict(Level.NEUTRAL, "Nothing to see."), **parts)


def _hostile_report(full: Report) -> Report:
    """Hostile words in every text of a report."""
    h = _HOSTILE
    fact = (Fact(h, h, h),)
    chart = Chart(h, full.charts[0].image, h, h)
    table = Table(h, (h, "n"), ((h, 1.0), (None, 2)), h, h)
    pictured = dataclasses.replace(full.samples[0], certainty=h, label=h, true_label=h + "2")
    recorded = Sample(1, h, record=(1.0,), true_record=(2.0,), label=h)
    return Report(
        title=h,
        verdict=Verdict(Level.LEAK, h, (h,)),
        facts=fact,
        law=chart,
        samples=(pictured, recorded),
        samples_note=h,
        fields=(Field(h, h),),
        assumptions=fact,
        convergence=(chart,),
        defence_charts=(chart,),
        defence_tables=(table,),
        charts=(chart,),
        tables=(table,),
        remedies=(Remedy(h, h),),
        notes=(h,),
        model_card=h,
        provenance=fact,
    )


def test_hostile_words_make_no_element_and_no_attribute(full_report):
    parsed = _Page(page.render(_hostile_report(full_report)))
    assert len(parsed.all("script")) == 2
    assert len(parsed.all("style")) == 1
    assert not any(name.startswith("on") for _, attributes, _ in parsed.elements for name in attributes)
    assert all((attributes["src"] or "").startswith("data:image/") for attributes, _ in parsed.all("img"))
    assert "{{" not in page.render(full_report)
    assert parsed.all("h1")[0][1] == _HOSTILE
    assert parsed.all("pre")[0][1] == _HOSTILE


def test_a_script_end_in_the_data_stays_data(full_report):
    report = _hostile_report(full_report)
    data = _Page(page.render(report)).data()
    assert data["report"]["content"]["title"] == _HOSTILE
    assert data["report"]["content"]["tables"][0]["rows"][0][0] == _HOSTILE
    assert "/" not in data["report"]["name"]
    assert all("/" not in each["name"] for each in data["tables"].values())


def test_the_same_report_gives_the_same_page(full_report):
    assert page.render(full_report) == page.render(dataclasses.replace(full_report))


@pytest.mark.parametrize("which", ["full_report", "tabular_report"])
def test_nothing_is_loaded_from_elsewhere(which, request):
    text = page.render(request.getfixturevalue(which))
    for _, attributes, _ in _Page(text).elements:
        for name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:image/"))
    assert re.findall(r"url\((?!#)", text) == []
    assert "@import" not in text
    # The names of the SVG namespaces are the only addresses.
    assert set(re.findall(r"https?://[\w.]+", text)) <= {"http://www.w3.org"}


def test_the_policy_allows_the_two_inline_blocks_and_nothing_else(full_report):
    parsed = _Page(page.render(full_report))
    (policy,) = [each["content"] for each, _ in parsed.all("meta") if each.get("http-equiv")]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    script = next(text for attributes, text in parsed.all("script") if "type" not in attributes)
    style = parsed.all("style")[0][1]

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    assert rules["script-src"] == digest(script)
    assert rules["style-src"] == digest(style)


def test_a_report_of_little_has_only_its_verdict():
    parsed = _Page(page.render(_minimal()))
    assert [attributes["id"] for attributes, _ in parsed.all("section")] == ["verdict"]
    assert parsed.all("table") == []
    ids = {attributes.get("id") for _, attributes, _ in parsed.elements}
    assert not {"sensitive", "redacted"} & ids


@pytest.mark.parametrize(
    ("part", "section"),
    [
        ({"facts": (Fact("a", "b"),)}, "facts"),
        ({"samples": (Sample(0, "likely"),)}, "samples"),
        ({"assumptions": (Fact("a", "b"),)}, "assumptions"),
        ({"layers": (Table("T", ("a",), ((1,),)),)}, "layers"),
        ({"defence_tables": (Table("T", ("a",), ((1,),)),)}, "defences"),
        ({"tables": (Table("T", ("a",), ()),)}, "results"),
        ({"remedies": (Remedy("a", "b"),)}, "remedies"),
        ({"notes": ("a",)}, "notes"),
        ({"model_card": "a"}, "model-card"),
        ({"provenance": (Fact("a", "b"),)}, "provenance"),
    ],
)
def test_each_part_brings_its_own_section_and_an_entry_in_the_contents(part, section):
    parsed = _Page(page.render(_minimal(**part)))
    assert [attributes["id"] for attributes, _ in parsed.all("section")] == ["verdict", section]
    assert [attributes["href"] for attributes, _ in parsed.all("a")] == ["#main", "#verdict", f"#{section}"]


@pytest.mark.parametrize("which", ["full_report", "tabular_report"])
def test_ids_are_unique_and_every_reference_leads_to_one(which, request):
    parsed = _Page(page.render(request.getfixturevalue(which)))
    ids = [attributes["id"] for _, attributes, _ in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes, _ in parsed.elements:
        for name in ("aria-labelledby", "data-copy"):
            assert attributes.get(name) is None or attributes[name] in ids
        if (attributes.get("href") or "").startswith("#"):
            assert attributes["href"][1:] in ids


def test_every_picture_has_a_text_and_every_control_a_name(full_report):
    parsed = _Page(page.render(full_report))
    pictures = [attributes["alt"] for attributes, _ in parsed.all("img")]
    assert len(pictures) == 24
    assert all(pictures)
    assert "Recovered sample 3, expected error 0.00123" in pictures
    assert "True sample 9, the match of recovered sample 3" in pictures
    names = [attributes["aria-label"] for attributes, _ in parsed.all("input")]
    assert names[3] == "Compare recovered sample 3 with true sample 9"
    assert len(set(names)) == 12
    assert all(text.strip() for _, text in parsed.all("button"))
    assert all(attributes.get("aria-label") for _, attributes, _ in parsed.elements if attributes.get("role") == "img")


@pytest.mark.parametrize("level", list(Level))
def test_the_verdict_is_told_by_symbol_and_words_and_not_by_colour_alone(level):
    text = page.render(Report("Model", Verdict(level, "So it is.")))
    (place,) = re.findall(r'<p class="level">(.*?)</p>', text, re.DOTALL)
    assert "<path" in place
    assert len(re.sub(r"<.*?>", "", place, flags=re.DOTALL).strip()) > 5


def test_no_number_that_json_cannot_write_gets_into_the_data():
    nan, inf = float("nan"), float("inf")
    table = Table("T", ("a",), ((nan,), (inf,), (1.5,)))
    text = page.render(_minimal(samples=(Sample(0, "likely", error_bar=nan, psnr=inf),), tables=(table,)))
    data = _Page(text).data()["report"]["content"]
    assert data["samples"][0]["error_bar"] is None
    assert data["samples"][0]["psnr"] is None
    assert data["tables"][0]["rows"] == [[None], [None], [1.5]]


def test_the_data_leave_pictures_out(full_report):
    data = _Page(page.render(full_report)).data()["report"]["content"]
    assert "picture" not in data["samples"][0]
    assert data["samples"][3]["error_bar"] == full_report.samples[3].error_bar


@pytest.mark.parametrize(
    "image", ["https://evil.example/x.png", "javascript:alert(1)", "<img src=x>", "data:text/html,x"]
)
def test_what_is_neither_drawing_nor_picture_is_refused(image):
    with pytest.raises(InputError, match="data:image/"):
        page.render(_minimal(charts=(Chart("T", image, "D"),)))
    with pytest.raises(InputError, match="data:image/"):
        page.render(_minimal(samples=(Sample(0, "likely", picture=image),)))


def test_a_chart_may_be_a_picture_or_a_drawing_whose_style_sheet_is_left_out(full_report):
    picture = full_report.samples[0].picture
    drawing = "<svg><style>*{fill:red}</style><path d='M0 0'/></svg>"
    text = page.render(_minimal(charts=(Chart("P", picture, "A digit"), Chart("D", drawing, "A path"))))
    parsed = _Page(text)
    assert [attributes["alt"] for attributes, _ in parsed.all("img")] == ["A digit"]
    assert "<svg><path d='M0 0'/></svg>" in text
    assert "fill:red" not in text


def test_samples_bring_a_notice_and_redaction_its_own(full_report):
    def notices(report: Report) -> set[str | None]:
        ids = {attributes.get("id") for _, attributes, _ in _Page(page.render(report)).elements}
        return ids & {"sensitive", "redacted"}

    assert notices(full_report) == {"sensitive"}
    assert notices(dataclasses.replace(full_report, redacted=True)) == {"redacted"}


def test_a_redacted_report_with_records_is_refused(tabular_report):
    with pytest.raises(InputError, match="redacted"):
        page.render(dataclasses.replace(tabular_report, redacted=True))


def test_records_are_a_table_with_units_instead_of_pictures(tabular_report):
    parsed = _Page(page.render(tabular_report))
    sections = [attributes["id"] for attributes, _ in parsed.all("section")]
    assert "records" in sections
    assert "gallery" not in sections
    headings = [" ".join(text.split()) for _, text in parsed.all("th")]
    assert {"age years", "bmi kg/m²", "pressure mmHg"} <= set(headings)


@pytest.mark.parametrize(("count", "behind"), [(60, 0), (61, 1)])
def test_many_samples_wait_behind_a_control(count, behind, full_report, many_samples):
    text = page.render(dataclasses.replace(full_report, samples=many_samples(count)))
    before, _, after = text.partition("<details")
    assert before.count('<li class="card">') == count - behind
    assert after.count('<li class="card">') == behind
    assert (f"Show all {count} samples" in after) == bool(behind)


def test_the_file_is_whole_and_its_owners_alone(full_report, tmp_path):
    path = tmp_path / "report" / "index.html"
    page.write(full_report, path)
    assert path.read_text(encoding="utf-8") == page.render(full_report)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["index.html"]
