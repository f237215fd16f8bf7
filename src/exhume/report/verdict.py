"""The verdict in words: what a reader who has never heard of the law is told first, and what it rests on.

The level follows from what was shown and from nothing else. A failed attack is never called safety, and where the
truth contradicts a certificate the page says so.
"""

from __future__ import annotations

from exhume.certificate import APPROXIMATE, EXACT
from exhume.report import findings
from exhume.report.content import Level, Verdict
from exhume.report.findings import Findings
from exhume.report.subject import Subject
from exhume.scoring import RECOVERED_BELOW

_NO_PROOF = "That is no proof of safety: a longer attack, another method or an attacker who knows more may get further."


def verdict_of(subject: Subject) -> Verdict:
    """The first thing a reader of a report on one model sees."""
    found = findings.of(subject)
    if subject.result is None:
        return _not_run(subject, found)
    if found.confirmed > 0:
        return _leak(subject, found)
    if found.vouched > 0:
        return _contradicted(subject, found)
    if found.recovered > 0:
        return _unexpected(subject, found)
    return _nothing(subject, found)


def samples_in_words(count: int, total: int, what: str = "training samples") -> str:
    """So many of so many, in words: "all 12 training samples", "3 of 12 training samples", "the training sample"."""
    if total == 1:
        one = what.removesuffix("s")
        return f"the only {one}" if count == 1 else f"none of 1 {one}"
    if count == total:
        return f"all {total:,} {what}"
    return f"{count:,} of {total:,} {what}" if count else f"none of {total:,} {what}"


def be(count: int) -> str:
    """Was or were."""
    return "was" if count == 1 else "were"


def _leak(subject: Subject, found: Findings) -> Verdict:
    result = subject.result
    assert result is not None
    total = found.sought if found.scored else found.rows
    count = min(found.recovered if found.scored else found.confirmed, total)
    what = "unknown training samples" if result.knowledge.known_samples else "training samples"
    if not found.scored:
        what = "samples that were looked for"
    most = 2 * count >= total
    opening = "This model gives away its training data" if most else "This model gives away some of its training data"
    short = samples_in_words(count, total, what)
    headline = f"{opening}: {short} {be(count)} recovered from the weights."
    certificate = result.certificate
    largest = max(error for error in certificate.predicted_errors if error < RECOVERED_BELOW)
    sentences = []
    if certificate.verdict == EXACT:
        sentences.append(
            "The attack can tell without seeing the data: the recovered samples explain the weights down to "
            f"rounding, and no expected error is above {percent(largest)} of a sample."
        )
    elif certificate.verdict == APPROXIMATE:
        sentences.append(
            f"The attack vouches, without seeing the data, for {samples_in_words(found.vouched, found.rows, 'samples')}"
            f" it returned; their expected errors are up to about {percent(largest)} of a sample."
        )
    sentences += _truth(subject, found)
    sentences += _open_ends(subject)
    return Verdict(Level.LEAK if most else Level.PARTIAL, headline, tuple(sentences))


def _contradicted(subject: Subject, found: Findings) -> Verdict:
    headline = (
        f"The attack vouches for {found.vouched:,} recovered {_samples(found.vouched)}, but the training data that "
        "were given do not confirm any of them."
    )
    sentences = [
        "One of the two is wrong: the certificate, or the data that it was compared with. Check that the data are the "
        "ones this model was trained on, prepared in the same way and in the same units.",
        *_counted(found),
        *_open_ends(subject),
    ]
    return Verdict(Level.PARTIAL, headline, tuple(sentences))


def _unexpected(subject: Subject, found: Findings) -> Verdict:
    assert subject.result is not None
    short = samples_in_words(found.recovered, found.sought)
    headline = (
        f"This model gives away training data: {short} {be(found.recovered)} recovered, "
        "though the attack itself cannot tell."
    )
    sentences = [
        f"The comparison with the training data shows it. {subject.result.certificate.reason}",
        "An attacker without the data would not know which of the recovered samples to believe.",
        *_open_ends(subject),
    ]
    return Verdict(Level.PARTIAL, headline, tuple(sentences))


def _nothing(subject: Subject, found: Findings) -> Verdict:
    result = subject.result
    assert result is not None
    if not found.enough_equations:
        return _out_of_reach(subject, _counted(found))
    if found.recognisable:
        return _recognisable(subject, found)
    sentences = [_NO_PROOF, *_doubts(subject), result.certificate.reason]
    if result.stop.sentence != result.certificate.reason:
        sentences.append(result.stop.sentence)
    if subject.forecast is not None:
        sentences.append(f"What the law says of these sizes: {subject.forecast.sentence}")
    within = "" if result.max_passes is None else " within the budget"
    headline = f"No training sample could be recovered{within}."
    return Verdict(Level.NOT_SHOWN, headline, (*sentences, *_counted(found)))


def _recognisable(subject: Subject, found: Findings) -> Verdict:
    result = subject.result
    assert result is not None
    assert found.closest is not None
    count = samples_in_words(found.recognisable, found.sought)
    sentences = [
        f"The closest has an error of {percent(found.closest)}; {count} came back far closer than chance would bring "
        "them, which can be enough to recognise somebody or something. Look at what came back before you publish.",
        f"The attack does not vouch for them. {result.certificate.reason}",
        *_doubts(subject),
        *_counted(found),
    ]
    headline = (
        f"Training samples may be recognised in what came back, though none is within {percent(RECOVERED_BELOW)}."
    )
    return Verdict(Level.PARTIAL, headline, tuple(sentences))


def _doubts(subject: Subject) -> list[str]:
    """Assumptions of the attack that may not hold of this model."""
    result = subject.result
    assert result is not None
    doubts = [
        "The attack assumes gradient descent with one step size for all weights of the head: with Adam and the like it "
        "fails, whatever the budget."
    ]
    if result.knowledge.initial_head == "unknown":
        doubts.append(
            "The head's weights before training were not given, so that what is left of them is noise: an attacker who "
            "has them gets much further."
        )
    return doubts


def _out_of_reach(subject: Subject, more: list[str]) -> Verdict:
    headline = "The training samples cannot be determined from the weights of the head alone."
    sentences = [
        "The layer that was examined holds fewer numbers than it takes to tell one training set from another, so many "
        "different sets explain it equally well.",
        "Other layers that were trained on the data were not counted; an attack that reads them, or an attacker who "
        "knows more, such as some of the samples, may get further. Labels may still leak.",
    ]
    if subject.result is not None:
        certificate = subject.result.certificate
        sentences.append(
            f"This attack had {certificate.equations:,} equations for {certificate.unknowns:,} unknown numbers."
        )
    elif subject.forecast is not None:
        sentences.append(subject.forecast.sentence)
    return Verdict(Level.OUT_OF_REACH, headline, (*sentences, *more))


def _not_run(subject: Subject, found: Findings) -> Verdict:
    reason = [f"The attack was not run: {subject.reason}"] if subject.reason else ["The attack was not run."]
    if found.enough_equations is False:
        return _out_of_reach(subject, reason)
    headline = "The attack could not be run, so nothing is shown of this model."
    sentences = [*reason, "That is no proof of safety."]
    if subject.forecast is not None:
        sentences.append(f"What the law says of these sizes: {subject.forecast.sentence}")
    return Verdict(Level.NOT_SHOWN, headline, tuple(sentences))


def _truth(subject: Subject, found: Findings) -> list[str]:
    """What the comparison with the truth adds to what the attack says of itself."""
    if not found.scored:
        return ["The training data were not given, so the recovered samples were compared with nothing."]
    sentences = _counted(found)
    if found.mistaken:
        sentences.append(
            f"The truth contradicts the attack on {found.mistaken:,} {_samples(found.mistaken)} that it vouches for: "
            "they differ from every training sample that was given by more than that."
        )
    if found.unexpected:
        sentences.append(
            f"{found.unexpected:,} {_samples(found.unexpected)} came back that the attack does not vouch for."
        )
    return sentences


def _counted(found: Findings) -> list[str]:
    if not found.scored:
        return []
    short = samples_in_words(found.recovered, found.sought)
    sign = ", up to sign" if found.up_to_sign else ""
    return [
        f"Compared with the training data that were given, {short} came back "
        f"with an error below {percent(RECOVERED_BELOW)}{sign}."
    ]


def _open_ends(subject: Subject) -> list[str]:
    """What the weights leave open of the samples that came back."""
    result = subject.result
    assert result is not None
    sentences = []
    if not result.signs_determined:
        sentences.append("The weights do not tell a sample from its negative.")
    if not result.norms_determined:
        sentences.append("The weights do not tell how long a sample is: its values are right up to a common factor.")
    return sentences


def _samples(count: int) -> str:
    return "sample" if count == 1 else "samples"


def percent(share: float) -> str:
    """A share as people read it: 10 %, 0.03 %, less than 0.001 %."""
    hundredth = 100 * share
    return "0.001 %" if hundredth < 1e-3 else f"{hundredth:.1g} %" if hundredth < 1 else f"{hundredth:.2g} %"
