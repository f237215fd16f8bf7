"""The model card: a Markdown snippet that tells readers of a model what an audit of its weights found."""

from __future__ import annotations

import re

from exhume.report import assumptions
from exhume.report.content import Fact, Verdict
from exhume.report.subject import Subject

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#|~!])")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def of(subject: Subject, verdict: Verdict, provenance: tuple[Fact, ...]) -> str:
    """The snippet: verdict, sizes, what was assumed, which tool and when."""
    result, forecast = subject.result, subject.forecast
    lines = [
        "## Training data exposure",
        "",
        f"**{plain(verdict.headline)}** Audited model: {plain(subject.name)}.",
        "",
        *(f"- {plain(sentence)}" for sentence in verdict.sentences),
    ]
    if forecast is not None:
        lines.append(
            f"- Sizes: {forecast.num_parameters:,} weights of the head, {forecast.num_samples:,} training samples of "
            f"{forecast.input_dim:,} numbers, p/dn = {forecast.ratio:.3g} ({forecast.verdict})."
        )
    if result is not None:
        lines.append(f"- Attack: {plain(result.method)}, {result.passes:,.0f} feature passes.")
        lines += ["", "Assumptions about the attacker:", ""]
        lines += [f"- {plain(fact.value)}" for fact in assumptions.of(result)]
    version, date = (_named(provenance, name) for name in ("exhume", "date"))
    made = f"Made with exhume{f' {plain(version)}' if version else ''}{f' on {plain(date)}' if date else ''}."
    lines += ["", f"{made} An attack that fails is no proof of safety."]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """A text on one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", _UNPRINTABLE.sub(" ", text).strip())


def _named(facts: tuple[Fact, ...], name: str) -> str:
    return next((fact.value for fact in facts if fact.name.lower() == name), "")
