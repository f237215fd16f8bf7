"""What the adversary was assumed to know, what the weights show, and the Markdown snippet for a model card."""

from __future__ import annotations

import re
from collections.abc import Sequence

from exhume.attacks import Unmix
from exhume.report.content import Fact, Verdict
from exhume.report.page import environment
from exhume.report.subject import Subject
from exhume.results.reconstruction import Reconstruction
from exhume.target.dense_displacement import LEAST_FALL
from exhume.target.diagnosis import Finding
from exhume.target.knowledge import Channels, Knowledge

_INITIAL_HEAD = {
    "known": "The weights of the head before training were known, so that their change in training was.",
    "zero": "The weights of the head before training were taken to be zero.",
    "unknown": "The weights of the head before training were not known; the trained ones stand for their change.",
}
_FIRST_LAYER = (
    "The weights of the first layer before training were known, from a checkpoint or from the seed that makes them."
)
_NOT_USED = "Those of other layers before training were not used."
_FOR_ESTIMATES = "Those of other layers were known, and could be read where the zeros do not tell the samples apart."
_FOR_COLUMNS = "Those of other layers were known and needed: what a sample sent back is computed from all of them."
_ALPHABETS = {
    "signs": "Labels were known to be -1 or +1, and to be fitted exactly.",
    "one-hot": "Labels were known to be one-hot classes, and to be fitted exactly.",
}
# Kinds of findings of a diagnosis.
_FINDINGS = {
    "missing": "Not given",
    "start": "Initial weights",
    "optimiser": "Optimiser",
    "decay": "Weight decay",
    "normalisation": "BatchNorm",
    "head": "Head",
}
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#|~!])")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def list_assumptions(result: Reconstruction) -> tuple[Fact, ...]:
    """What the adversary knew in this attack, then what it did not need."""
    known = result.knowledge
    facts = [
        Fact("Model", "The architecture and the trained weights were known: whoever has the model file has these."),
    ]
    if result.method == Unmix.name:
        facts.append(Fact("First layer before training", f"{_FIRST_LAYER} {_other_layers(result)}"))
    else:
        facts.append(Fact("Head before training", _INITIAL_HEAD[known.initial_head]))
        if known.initial_body == "known":
            text = "The weights of the other layers before training were known."
            facts.append(Fact("Other layers before training", text))
    facts += _of_data(known, result)
    facts += _not_needed(known)
    return tuple(facts)


def diagnosis_facts(findings: Sequence[Finding]) -> tuple[Fact, ...]:
    """What the weights show of the training, one fact for each finding, with its advice."""
    return tuple(Fact(_FINDINGS.get(each.kind, each.kind), each.sentence, each.advice) for each in findings)


def model_card(subject: Subject, verdict: Verdict, provenance: tuple[Fact, ...]) -> str:
    """The snippet: verdict, sizes, what was assumed, which tool and when."""
    named = {fact.name.lower(): fact.value for fact in provenance}
    templates = environment().overlay(autoescape=False, keep_trailing_newline=True)
    templates.filters["markdown"] = _escape_markdown
    return templates.get_template("model_card.md.j2").render(
        subject=subject,
        verdict=verdict,
        result=subject.result,
        forecast=subject.forecast,
        assumptions=list_assumptions(subject.result) if subject.result is not None else (),
        version=named.get("exhume"),
        date=named.get("date"),
    )


def _other_layers(result: Reconstruction) -> str:
    """What unmixing could read of the layers above the first one, which has a weight and at most one bias."""
    if "zero_shares" not in result.evidence:
        return _FOR_COLUMNS
    known = {name.rpartition(".")[0] for name in result.evidence.get("initial_weights", ())}
    return _FOR_ESTIMATES if len(known) > 1 else _NOT_USED


def _of_data(known: Knowledge, result: Reconstruction) -> list[Fact]:
    sentences = {"Number of samples": f"It was not known; the attack looked for {len(result.samples):,} of them."}
    if known.count is not None:
        sentences["Number of samples"] = f"It was known that there were {known.count:,} training samples."
        if result.evidence.get("fall", 0) >= LEAST_FALL:
            sentences["Number of samples"] += " The attack did not need it: the first layer's displacement shows it."
    if known.samples is not None:
        sentences["Samples"] = f"{known.known_samples:,} of the training samples were known."
    if known.labels is not None:
        sentences["Labels"] = "The labels of all training samples were known, in no particular order."
    if known.label_alphabet is not None:
        sentences["Kind of labels"] = _ALPHABETS[known.label_alphabet]
    if known.norm is not None:
        sentences["Norms"] = f"Every training sample was known to have the norm {known.norm:.4g}."
    if known.pixel_range is not None:
        low, high = known.pixel_range
        sentences["Range of pixels"] = f"Pixels were known to lie between {low:g} and {high:g}."
    if known.pixel_mean is not None:
        sentences["Mean of pixels"] = f"Normalisation was known to subtract {_numbers(known.pixel_mean)}."
    if known.pixel_std is not None:
        sentences["Spread of pixels"] = f"Normalisation was known to divide by {_numbers(known.pixel_std)}."
    if known.column_mean is not None:
        sentences["Mean of columns"] = f"The mean of every column was known: {_numbers(known.column_mean)}."
    if known.column_std is not None:
        sentences["Spread of columns"] = f"The spread of every column was known: {_numbers(known.column_std)}."
    if known.subspace is not None:
        size = "dimension {:,} of {:,}".format(*known.subspace.shape)
        sentences["Subspace"] = f"All training samples were known to lie in a given subspace of {size}."
    if known.public is not None:
        sentences["Public samples"] = f"{len(known.public):,} public samples of the same kind were known, for a prior."
    return [Fact(name, sentence) for name, sentence in sentences.items()]


def _not_needed(known: Knowledge) -> list[Fact]:
    absent = []
    if known.samples is None:
        absent.append("no training sample")
    if known.labels is None:
        absent.append("no label of a sample")
    if known.initial_body != "known":
        absent.append("no weight of the other layers before training")
    absent.append("no output of the model on training data, no gradient")
    if known.recipe is None:
        absent[-1] += " and no step of the training"
    text = ", ".join(absent)
    return [Fact("Not needed", f"{text[0].upper()}{text[1:]} was known.")]


def _numbers(value: Channels) -> str:
    return ", ".join(f"{each:.4g}" for each in value) if isinstance(value, tuple) else f"{value:.4g}"


def _escape_markdown(text: str) -> str:
    """A text on one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", _UNPRINTABLE.sub(" ", text).strip())
