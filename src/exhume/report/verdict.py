"""The verdict in words, for a reader who has never heard of the law, and what it rests on.

Headline and level follow from the outcome (`scoring/outcome.py`) and from nothing else. A failed attack is never called
safety, and where the truth contradicts a certificate the page says so.
"""

from __future__ import annotations

from exhume.attacks import Replay, Unmix
from exhume.law import RECONSTRUCTIBLE
from exhume.report.content import Level, Verdict
from exhume.report.subject import Subject
from exhume.results.certificate import APPROXIMATE, EXACT, RECOVERED_BELOW
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.findings import Findings
from exhume.scoring.outcome import Outcome
from exhume.support.text import plural
from exhume.target.diagnosis.optimiser_trace import ADAPTIVE, UNKNOWN

_CHECK_DATA = (
    "Check that the data are the ones this model was trained on, prepared in the same way and in the same units."
)
_NO_PROOF = "That is no proof of safety: a longer attack, another method or an attacker who knows more may get further."


def verdict_of(subject: Subject) -> Verdict:
    """The first thing a reader of a report on one model sees; it follows from the outcome."""
    found, result, outcome = subject.findings, subject.result, subject.judgement.outcome
    if outcome is Outcome.NOT_RECOVERABLE:
        return _out_of_reach(subject)
    if outcome is Outcome.NOT_RECOVERED:
        return _recognised(subject, result) if result is not None and found.recognised else _in_weights(subject)
    if outcome is Outcome.INCONCLUSIVE or result is None:
        return _inconclusive(subject)
    if found.confirmed > 0:
        return _leak(subject, result)
    return _uncertified(subject, result) if found.recovered > 0 else _unconfirmed(subject, result)


def samples_in_words(count: int, total: int, what: str = "training samples") -> str:
    """So many of so many, in words: "all 12 training samples", "3 of 12 training samples", "the training sample"."""
    if total == 1:
        one = what.removesuffix("s")
        return f"the only {one}" if count == 1 else f"none of 1 {one}"
    if count == total:
        return f"all {total:,} {what}"
    return f"{count:,} of {total:,} {what}" if count else f"none of {total:,} {what}"


def percent(share: float) -> str:
    """A share as people read it: 10 %, 0.03 %, at least 0.001 %."""
    hundredth = 100 * share
    return "0.001 %" if hundredth < 1e-3 else f"{hundredth:.1g} %" if hundredth < 1 else f"{hundredth:.2g} %"


def _leak(subject: Subject, result: Reconstruction) -> Verdict:
    found = subject.findings
    total = found.sought if found.scored else found.rows
    count = min(found.recovered if found.scored else found.confirmed, total)
    what = "unknown training samples" if result.knowledge.known_samples else "training samples"
    if not found.scored:
        what = "samples that were looked for"
    most = 2 * count >= total
    opening = "This model gives away its training data" if most else "This model gives away some of its training data"
    headline = f"{opening}: {samples_in_words(count, total, what)} {_be(count)} recovered from the weights."
    largest = percent(max(error for error in result.certificate.predicted_errors if error < RECOVERED_BELOW))
    sentences = []
    if result.certificate.verdict == EXACT:
        sentences.append(
            "The attack can tell without seeing the data: the recovered samples explain the weights down to "
            f"rounding, and no expected error is above {largest} of a sample."
        )
    elif result.certificate.verdict == APPROXIMATE:
        certified = samples_in_words(found.certified, found.rows, "returned samples")
        sentences.append(
            f"Without seeing the data, the attack certifies {certified}; their expected errors are up to about "
            f"{largest} of a sample."
        )
    if not found.scored:
        sentences.append("The training data were not given, so the recovered samples were compared with nothing.")
    sentences += [*_counted(found), *_not_forecast(subject)]
    if found.mistaken:
        sentences.append(
            f"The truth contradicts the attack on {plural(found.mistaken, 'certified sample')}: no training sample "
            f"that was given is within {percent(RECOVERED_BELOW)}."
        )
    if found.unexpected:
        sentences.append(f"{plural(found.unexpected, 'sample')} came back that {_be(found.unexpected)} not certified.")
    return Verdict(Level.LEAK if most else Level.PARTIAL, headline, (*sentences, *_left_open(result)))


def _unconfirmed(subject: Subject, result: Reconstruction) -> Verdict:
    found = subject.findings
    headline = (
        f"This model gives away training data: {plural(found.certified, 'recovered sample')} {_be(found.certified)} "
        "certified as exact. The data that were given are not those that it was trained on."
    )
    sentences = (subject.judgement.reason, _CHECK_DATA, *_counted(found), *_left_open(result))
    return Verdict(Level.PARTIAL, headline, sentences)


def _uncertified(subject: Subject, result: Reconstruction) -> Verdict:
    found = subject.findings
    headline = (
        f"This model gives away training data: {samples_in_words(found.recovered, found.sought)} "
        f"{_be(found.recovered)} recovered, though the attack itself cannot tell."
    )
    sentences = (
        f"The comparison with the training data shows it. {result.certificate.reason}",
        "An attacker without the data would not know which of the recovered samples to believe.",
        *_not_forecast(subject),
        *_left_open(result),
    )
    return Verdict(Level.PARTIAL, headline, sentences)


def _recognised(subject: Subject, result: Reconstruction) -> Verdict:
    found, score = subject.findings, subject.score
    assert found.closest is not None
    assert score is not None
    assert score.baseline is not None
    count = samples_in_words(found.recognised, found.sought)
    headline = (
        f"Training samples may be recognised in what came back, though none is within {percent(RECOVERED_BELOW)}."
    )
    sentences = (
        f"The closest has an error of {percent(found.closest)}; {count} came back closer than "
        f"{score.baseline.non_members:,} samples that were not trained on would suggest "
        f"(permutation test: p = {score.baseline.p_value:.2g}). Look at what came back before you publish.",
        f"None of them is certified. {result.certificate.reason}",
        *_premise(subject),
        *_counted(found),
    )
    return Verdict(Level.IN_WEIGHTS, headline, sentences)


def _in_weights(subject: Subject) -> Verdict:
    headline = "The training data are in the weights, but this search did not recover them."
    ending = f"No attack was run. {subject.reason}".strip() if subject.result is None else subject.result.ending
    reasons = dict.fromkeys((subject.judgement.reason, *_premise(subject), ending))
    sentences = (
        *reasons,
        "Whoever searches longer or better may recover them: treat this as a leak.",
        *_law(subject),
        *_counted(subject.findings),
    )
    return Verdict(Level.IN_WEIGHTS, headline, sentences)


def _inconclusive(subject: Subject) -> Verdict:
    result, found, reason = subject.result, subject.findings, subject.judgement.reason
    if result is None:
        headline = "Inconclusive: no attack could be run, so nothing is shown of this model."
        return Verdict(Level.INCONCLUSIVE, headline, (reason, "That is no proof of safety.", *_law(subject)))
    if found.certified > 0:
        headline = (
            f"Inconclusive: the attack certifies {plural(found.certified, 'recovered sample')}, but the training data "
            "that were given do not confirm any of them."
        )
        sentences = (reason, _CHECK_DATA, *_premise(subject), *_counted(found), *_left_open(result))
        return Verdict(Level.INCONCLUSIVE, headline, sentences)
    within = "" if result.max_passes is None else " within the budget"
    reasons = dict.fromkeys((reason, result.certificate.reason, result.ending))
    sentences = (*reasons, _NO_PROOF, *_doubts(subject, result), *_premise(subject), *_law(subject), *_counted(found))
    headline = f"Inconclusive: no training sample was recovered{within}, and it is not shown that none can be."
    return Verdict(Level.INCONCLUSIVE, headline, tuple(dict.fromkeys(sentences)))


def _out_of_reach(subject: Subject) -> Verdict:
    headline = "The published weights hold too few numbers to determine the training samples."
    sentences = [
        subject.judgement.reason,
        "Many different training sets explain these weights equally well. This was counted, not attacked.",
        "An attacker who knows more, such as some of the samples or many like them, may get further. Labels may still "
        "leak.",
        *([f"Why no attack was run: {subject.reason}"] if subject.reason and subject.result is None else []),
        *_law(subject),
        *_counted(subject.findings),
    ]
    return Verdict(Level.OUT_OF_REACH, headline, tuple(sentences))


def _premise(subject: Subject) -> list[str]:
    """What the truth leaves unexplained, if it was given."""
    return [] if subject.premise is None else [subject.premise.sentence]


def _doubts(subject: Subject, result: Reconstruction) -> list[str]:
    """Assumptions of the attack that do not hold for this model, or may not where its weights do not show it."""
    found = {each.kind: each.value for each in subject.diagnosis}
    layer = "first layer" if result.method == Unmix.name else "head"
    assumed = f"The attack assumes gradient descent with one step size for all weights of the {layer}"
    doubts = []
    optimiser = "" if result.method == Replay.name else found.get("optimiser", UNKNOWN)  # replay is told the optimiser
    if optimiser == ADAPTIVE:
        doubts.append(f"{assumed}; these weights moved as Adam moves them, so that it fails, whatever the budget.")
    elif optimiser == UNKNOWN:
        doubts.append(f"{assumed}: with Adam and the like it fails, whatever the budget.")
    if result.knowledge.initial_head == "unknown" and "missing" not in found:
        doubts.append(
            "The head's weights before training were not given, so that what is left of them is noise: an attacker who "
            "has them gets much further."
        )
    return doubts


def _law(subject: Subject) -> list[str]:
    if subject.forecast is None:
        return []
    counted = "of the head's size alone" if subject.beyond_the_head else "of these sizes"
    return [f"What the law says {counted}: {subject.forecast.sentence}"]


def _not_forecast(subject: Subject) -> list[str]:
    """Why samples came back where the forecast does not promise it: it counts the head, and the attack read more."""
    forecast, more = subject.forecast, subject.beyond_the_head
    if not more or forecast is None or forecast.verdict == RECONSTRUCTIBLE:
        return []
    gave = "gave" if more == "the first layer" else "helped to give"
    return [f"The forecast ({forecast.verdict}) counts the head only; {more} {gave} the samples away."]


def _counted(found: Findings) -> list[str]:
    if not found.scored:
        return []
    sign = ", up to sign" if found.up_to_sign else ""
    return [
        f"Compared with the training data that were given, {samples_in_words(found.recovered, found.sought)} came back "
        f"with an error below {percent(RECOVERED_BELOW)}{sign}."
    ]


def _left_open(result: Reconstruction) -> list[str]:
    """What the weights do not determine of the recovered samples."""
    sentences = []
    if not result.signs_determined:
        sentences.append("The weights do not tell a sample from its negative.")
    if not result.norms_determined:
        sentences.append("The weights do not tell how long a sample is: its values are right up to a common factor.")
    return sentences


def _be(count: int) -> str:
    return "was" if count == 1 else "were"
