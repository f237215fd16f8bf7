"""HTML of a forecast, a reconstruction and a score in a notebook, all by one template.

`_repr_html_` of these classes finds this module by its name, so that they import nothing of reports. The HTML carries
its styles, holds no scripts, takes the colour of the text around it, and is well-formed XML.
"""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from exhume.law import GREY_ZONE, RECONSTRUCTIBLE, Forecast
from exhume.report.model_charts.law import law_chart
from exhume.report.page import environment
from exhume.results.certificate import APPROXIMATE, EXACT
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import Score
from exhume.support.images import data_uri, shape_of_picture, stretched

# Colours of a badge by the strength of the evidence. White on each has a contrast of 4.5 or more.
_STRONG, _MEDIUM, _WEAK = "#0a5fc2", "#9a6700", "#6a737d"
_SAMPLES, _NUMBERS = 20, 8  # samples, and numbers of each, that are shown
_STORED_SIDE = 96  # pixels of an image at most
_ENDS = 5  # pairs at either end of a score
# What the template may show beside a badge: parts that are not given are left out.
_PARTS = ("drawing", "facts", "heading", "images", "columns", "rows", "folded")
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def forecast_html(forecast: Forecast) -> str:
    """The verdict with its reason, the model's place on the law's axis, and the sizes."""
    sizes = {"p": forecast.num_parameters, "d": forecast.input_dim, "r": forecast.subspace_dim}
    sizes |= {"n": forecast.num_samples, "of them known": forecast.known_samples, "k": forecast.num_outputs}
    listed = ", ".join([*(f"{name} = {size:,}" for name, size in sizes.items() if size), forecast.activation])
    colour = {GREY_ZONE: _MEDIUM, RECONSTRUCTIBLE: _STRONG}.get(forecast.verdict, _WEAK)
    reason = forecast.sentence.partition(": ")[2]
    return _html(forecast.verdict, colour, reason, drawing=Markup(law_chart(forecast).image), heading=listed)


def reconstruction_html(result: Reconstruction) -> str:
    """The verdict with its reason, key numbers, and the samples, the most certain first."""
    certificate = result.certificate
    facts = {
        "samples": f"{result.samples.shape[0]} of dimension {result.samples.shape[1]}, by {result.method}",
        "relative residual": f"{certificate.residual:.2e} (rounding alone: {certificate.floor:.1e})",
        "equations": f"{certificate.equations:,} for {certificate.unknowns:,} unknowns",
    }
    if certificate.predicted_error is not None:
        worst = max(certificate.predicted_errors)
        facts["expected error"] = f"{certificate.predicted_error:.1e} on average, {worst:.1e} at worst"
    determined = {"signs": result.signs_determined, "norms": result.norms_determined}
    if not all(determined.values()):
        facts["left open"] = " and ".join(name for name, known in determined.items() if not known)
    facts["cost"] = f"{result.steps:,} steps, {result.passes:,.0f} feature passes, {result.seconds:.1f} s"
    return _html(
        certificate.verdict,
        {EXACT: _STRONG, APPROXIMATE: _MEDIUM}.get(certificate.verdict, _WEAK),
        " ".join(dict.fromkeys((certificate.reason, result.ending))),
        facts=facts,
        folded=(result.knowledge.sentence(), *result.notes),
        **_samples(result),
    )


def score_html(score: Score) -> str:
    """How many samples were recovered, the errors beside those of chance, and the best and worst pairs."""
    numbers = {
        "error": score.error,
        "error up to sign": score.error_up_to_sign,
        "random directions get": score.baseline_random,
        "non-members get": score.baseline_non_members,
        "PSNR": score.psnr,
        "SSIM": score.ssim,
        "label accuracy": score.label_accuracy,
        "label error": score.label_error,
        "known beforehand": len(score.known) or None,
        "without a row": score.missing or None,
        "rows too many": len(score.duplicates) + len(score.strays) or None,
    }
    ranked = sorted(score.matches, key=lambda match: match.error_up_to_sign)
    shown = ranked if len(ranked) <= 2 * _ENDS else ranked[:_ENDS] + ranked[-_ENDS:]
    pairs = [(each.truth_index, each.row, f"{each.error:.2g}", f"{each.error_up_to_sign:.2g}") for each in shown]
    best_colour = _STRONG if score.recovered == score.num_samples else _MEDIUM
    return _html(
        f"{score.recovered} of {score.num_samples} recovered",
        best_colour if score.recovered else _WEAK,
        f"{score.recovered_up_to_sign} up to sign; {score.compared} compared.",
        facts={name: f"{value:.3g}" for name, value in numbers.items() if value is not None},
        heading="Pairs, the best first:" if shown is ranked else f"The {_ENDS} best and the {_ENDS} worst pairs:",
        columns=("true sample", "row", "error", "up to sign"),
        rows=pairs,
    )


def _samples(result: Reconstruction) -> dict[str, Any]:
    """The first samples by certainty: images if they are some, else their first numbers, with error bars."""
    bars = dict(enumerate(result.certificate.predicted_errors))
    rows = sorted(range(len(result.samples)), key=lambda row: bars.get(row, 0.0))[:_SAMPLES]
    errors = [f"\N{PLUS-MINUS SIGN} {bars[row]:.1e}" if row in bars else "no error bar" for row in rows]
    count, order = len(result.samples), "the most certain first" if bars else "in no order"
    heading = f"{f'{len(rows)} of' if len(rows) < count else 'All'} {count} samples, {order}"
    # An attack that diverged leaves rows that are not numbers.
    samples = result.samples[rows].detach().cpu().double().nan_to_num(0.0, 0.0, 0.0)
    shape = shape_of_picture(result.input_shape)
    if shape is not None:
        uris = [data_uri(image, _STORED_SIDE) for image in stretched(samples, shape)]
        images = list(zip(uris, (f"Recovered sample {row}" for row in rows), errors, strict=True))
        return {"heading": f"{heading}, each stretched to its own range:", "images": images}
    shown = min(int(result.samples.shape[1]), _NUMBERS)
    rest = [] if shown == result.samples.shape[1] else [_ELLIPSIS]
    numbers = [[f"{value:.4g}" for value in row] for row in result.samples[rows, :shown].tolist()]
    lines = [[row, error, *own, *rest] for row, error, own in zip(rows, errors, numbers, strict=True)]
    return {
        "heading": f"{heading}:",
        "columns": ["row", "error bar", *(f"x{place}" for place in range(shown)), *rest],
        "rows": lines,
    }


def _html(badge: str, colour: str, text: str, **parts: Any) -> str:
    """A word on a coloured ground and the text beside it; below them the parts that are given.

    `drawing` is SVG; `facts` are names and values; `heading` stands above the `images` (data URI, description and
    caption of each) or above the table of `columns` and `rows`; `folded` are lines that a click unfolds.
    """
    template = environment().overlay(finalize=_printable).get_template("notebook.html.j2")
    return template.render(badge=badge, colour=colour, text=text, **(dict.fromkeys(_PARTS) | parts))


def _printable(value: Any) -> Any:
    """Texts without the characters that XML cannot hold; markup as it is."""
    if isinstance(value, Markup):
        return value
    return "".join(letter if letter.isprintable() else " " for letter in str(value))
