"""What a notebook shows: well-formed, escaped, without scripts, with pictures where there are pictures."""

import base64
import io
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch
from PIL import Image

import exhume
from exhume.results.certificate import Certificate

HOSTILE = "<script>alert(1)</script>\"'&\x00\ud800]]>"
PNG = "data:image/png;base64,"


class Tags(HTMLParser):
    """The tags, attributes and text of a fragment, as a browser's parser reads them."""

    def __init__(self, markup):
        super().__init__()
        self.tags, self.attributes, self.words = [], [], []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


def read(shown):
    """Parses a fragment as strict XML and as HTML, and checks that it is harmless in both."""
    markup = shown if isinstance(shown, str) else shown._repr_html_()
    ElementTree.fromstring(markup)
    tags = Tags(markup)
    assert not {"script", "style", "link", "iframe", "object"} & set(tags.tags)
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    assert "background:#fff" not in markup
    assert all(value.startswith(PNG) for name, value in tags.attributes if name in ("src", "href"))
    return tags


def certificate_of(errors=(), verdict="exact", reason="The residual is at the floor."):
    return Certificate(900, 100, 2e-7, 1e-7, 0.5, tuple(errors), verdict, reason)


def result_of(samples, *, errors=(), shape=(), **fields):
    made = exhume.Reconstruction(
        samples=samples,
        coefficients=torch.ones(len(samples), 1),
        certificate=certificate_of(errors),
        target="",
        method="exact",
        seed=0,
        options={},
        knowledge=exhume.Knowledge(),
        stop=exhume.Stop.CONVERGED,
        steps=3,
        passes=20.0,
        seconds=1.0,
        signs_determined=True,
        norms_determined=True,
        input_shape=shape,
    )
    return replace(made, **fields)


def decoded(uri):
    return Image.open(io.BytesIO(base64.b64decode(uri.removeprefix(PNG))))


def pictures_in(tags):
    return [decoded(value) for name, value in tags.attributes if name == "src"]


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_parameters": 60, "input_dim": 3072, "num_samples": 100},
        {"num_parameters": 20000, "input_dim": 3072, "num_samples": 100},
        {"num_parameters": 400000, "input_dim": 3072, "num_samples": 100},
        {"num_parameters": 4000000, "input_dim": 3072, "num_samples": 100},
        {"num_parameters": 1, "input_dim": 1, "num_samples": 1},
        {
            "num_parameters": 400,
            "input_dim": 64,
            "num_samples": 9,
            "num_outputs": 10,
            "known_samples": 3,
            "subspace_dim": 7,
        },
    ],
)
def test_a_forecast_shows_its_verdict_and_its_place_between_the_walls(sizes):
    said = exhume.forecast(**sizes)
    tags = read(said)
    assert said.verdict in tags.text
    assert said.sentence.partition(": ")[2] in tags.text
    assert f"= {said.ratio:.3g}" in tags.text
    assert "svg" in tags.tags
    if said.known_samples:
        assert "of them known = 3" in tags.text


def place_of(drawing, name):
    """Where a vertical line of the drawing stands, by the end of its group's id."""
    group = next(each for each in drawing.iter() if each.get("id", "").endswith(f"-{name}"))
    path = next(each for each in group.iter() if each.tag.endswith("path"))
    return float(path.get("d").split()[1])


def test_the_mark_moves_from_zone_to_zone_with_the_model():
    """The mark is to the right of exactly as many walls as the verdict implies."""
    passed = []
    for parameters in (60, 20000, 400000, 4000000):
        drawing = ElementTree.fromstring(exhume.forecast(parameters, 3072, 100)._repr_html_())
        mark, *walls = (place_of(drawing, name) for name in ("model-0", "wall-0", "wall-1", "wall-2"))
        passed.append(sum(wall < mark for wall in walls))
    assert passed == [0, 1, 2, 3]


def test_a_reconstruction_shows_its_pictures_the_most_certain_first():
    samples = torch.stack([torch.linspace(0, top, 48) for top in (1.0, -5.0, 3.0)])
    tags = read(result_of(samples, errors=(0.3, 1e-7, 0.02), shape=(3, 4, 4)))
    assert [value for name, value in tags.attributes if name == "alt"] == [
        f"Recovered sample {row}" for row in (1, 2, 0)
    ]
    assert [word for word in tags.words if word.startswith("±")] == ["± 1.0e-07", "± 2.0e-02", "± 3.0e-01"]
    shown = pictures_in(tags)
    assert [(picture.mode, picture.size) for picture in shown] == [("RGB", (4, 4))] * 3
    for picture in shown:  # each stretched to its own range
        assert {low for low, _ in picture.getextrema()} | {high for _, high in picture.getextrema()} >= {0, 255}


@pytest.mark.parametrize("shape", [(), (48,), (2, 4, 6), (3, 1, 16), (1, 2, 24), (1, 1, 3, 16)])
def test_samples_that_are_no_pictures_show_their_first_numbers(shape):
    samples = torch.arange(96.0).reshape(2, 48)
    tags = read(result_of(samples, errors=(0.5, 0.25), shape=shape))
    assert "img" not in tags.tags
    assert "55" in tags.words  # the eighth number of the second sample
    assert "56" not in tags.words
    assert tags.words.index("± 2.5e-01") < tags.words.index("± 5.0e-01")


def test_at_most_twenty_samples_are_shown_and_large_ones_shrunk():
    tags = read(result_of(torch.randn(50, 200 * 200), shape=(200, 200)))
    shown = pictures_in(tags)
    assert len(shown) == 20
    assert "20 of 50 samples" in tags.text
    assert max(shown[0].size) <= 96


def test_constant_and_diverged_samples_are_drawn_all_the_same():
    samples = torch.tensor([[2.0], [torch.nan], [torch.inf]]).expand(3, 16)
    for picture in pictures_in(read(result_of(samples, shape=(4, 4)))):
        assert picture.getextrema() == (128, 128)


def test_a_failed_reconstruction_says_so_and_claims_no_error():
    failed = certificate_of(verdict="failed", reason="Fewer equations than unknowns.")
    tags = read(result_of(torch.ones(1, 3), certificate=failed, signs_determined=False))
    assert "failed" in tags.words
    assert "Fewer equations than unknowns." in tags.text
    assert "no error bar" in tags.text
    assert "expected error" not in tags.text
    assert "signs" in tags.text


def test_hostile_texts_are_escaped_everywhere():
    hostile = certificate_of((0.1,), HOSTILE, HOSTILE)
    result = result_of(torch.ones(1, 16), shape=(4, 4), certificate=hostile, method=HOSTILE, notes=(HOSTILE,))
    assert read(result).text.count("alert(1)") == 4
    forecast = replace(exhume.forecast(400, 10, 3), activation=HOSTILE, verdict=HOSTILE)
    assert read(forecast).text.count("alert(1)") == 3  # badge, description of the drawing, sizes


def test_a_score_shows_errors_beside_chance_and_both_ends_of_the_pairs():
    truth = torch.randn(30, 12, generator=torch.Generator().manual_seed(0))
    found = truth + torch.linspace(0, 0.4, 30)[:, None] * torch.randn(
        30, 12, generator=torch.Generator().manual_seed(1)
    )
    judged = exhume.score(result_of(found), truth, non_members=torch.randn(9, 12))
    tags = read(judged)
    assert f"{judged.recovered} of 30 recovered" in tags.text
    for value in (judged.error, judged.baseline_random, judged.baseline_non_members):
        assert f"{value:.3g}" in tags.words
    assert "The 5 best and the 5 worst pairs" in tags.text
    assert tags.tags.count("tbody") == 2
    ranked = sorted(judged.matches, key=lambda match: match.error_up_to_sign)
    assert f"{ranked[-1].error_up_to_sign:.2g}" in tags.words
    few = exhume.score(result_of(truth[:2]), truth[:2])
    assert "Pairs, the best first" in read(few).text


def test_a_score_without_pairs_is_shown():
    nothing = exhume.score(result_of(torch.empty(0, 12)), torch.ones(2, 12))
    tags = read(nothing)
    assert "0 of 2 recovered" in tags.text
    assert tags.words[tags.words.index("without a row") + 1] == "2"
