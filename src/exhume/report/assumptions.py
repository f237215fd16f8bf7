"""What the attacker was assumed to know, a full sentence each, and what was not needed."""

from __future__ import annotations

from exhume.knowledge import Channels, Knowledge
from exhume.reconstruction import Reconstruction
from exhume.report.content import Fact

_INITIAL_HEAD = {
    "known": "The weights of the head before training were known, so that their change in training was.",
    "zero": "The weights of the head before training were taken to be zero.",
    "unknown": "The weights of the head before training were not known; the trained ones stand for their change.",
}
_ALPHABETS = {
    "signs": "Labels were known to be -1 or +1, and to be fitted exactly.",
    "one-hot": "Labels were known to be one-hot classes, and to be fitted exactly.",
}


def of(result: Reconstruction) -> tuple[Fact, ...]:
    """What was known in this attack, then what was not."""
    known = result.knowledge
    facts = [
        Fact("Model", "The architecture and the trained weights were known: whoever has the model file has these."),
        Fact("Head before training", _INITIAL_HEAD[known.initial_head]),
    ]
    if known.initial_body == "known":
        facts.append(Fact("Other layers before training", "Their weights before training were known."))
    facts += _of_data(known, result)
    facts += _not_needed(known)
    return tuple(facts)


def _of_data(known: Knowledge, result: Reconstruction) -> list[Fact]:
    facts = []
    if known.count is not None:
        facts.append(Fact("Number of samples", f"It was known that there were {known.count:,} training samples."))
    else:
        facts.append(
            Fact("Number of samples", f"It was not known; the attack looked for {len(result.samples):,} of them.")
        )
    if known.samples is not None:
        facts.append(Fact("Samples", f"{known.known_samples:,} of the training samples were known."))
    if known.labels is not None:
        facts.append(Fact("Labels", "The labels of all training samples were known, in no particular order."))
    if known.label_alphabet is not None:
        facts.append(Fact("Kind of labels", _ALPHABETS[known.label_alphabet]))
    if known.norm is not None:
        facts.append(Fact("Norms", f"Every training sample was known to have the norm {known.norm:.4g}."))
    if known.pixel_range is not None:
        low, high = known.pixel_range
        facts.append(Fact("Range of pixels", f"Pixels were known to lie between {low:g} and {high:g}."))
    if known.pixel_mean is not None:
        facts.append(Fact("Mean of pixels", f"Normalisation was known to take off {_numbers(known.pixel_mean)}."))
    if known.pixel_std is not None:
        facts.append(Fact("Spread of pixels", f"Normalisation was known to divide by {_numbers(known.pixel_std)}."))
    if known.subspace is not None:
        rows, size = known.subspace.shape
        text = f"All training samples were known to lie in a given subspace of dimension {rows:,} of {size:,}."
        facts.append(Fact("Subspace", text))
    return facts


def _not_needed(known: Knowledge) -> list[Fact]:
    absent = []
    if known.samples is None:
        absent.append("no training sample")
    if known.labels is None:
        absent.append("no label of a sample")
    if known.initial_body != "known":
        absent.append("no weight of the other layers before training")
    absent.append("no output of the model on training data, no gradient and no step of the training")
    text = ", ".join(absent)
    return [Fact("Not needed", f"{text[0].upper()}{text[1:]} was known.")]


def _numbers(value: Channels) -> str:
    return ", ".join(f"{each:.4g}" for each in value) if isinstance(value, tuple) else f"{value:.4g}"
