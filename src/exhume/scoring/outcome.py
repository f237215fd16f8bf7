"""The outcome of an audit: recovered, in the weights but not recovered, inconclusive, or not recoverable.

It is judged from a result, its score, what the truth leaves unexplained of the displacement (the premise) and the
count of equations over all published layers. Headline, colour, symbol, JSON and exit code follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from exhume.results.certificate import EXACT
from exhume.results.reconstruction import Reconstruction
from exhume.results.stop import Stop
from exhume.scoring.against_truth import Score
from exhume.scoring.findings import Findings, findings_of
from exhume.scoring.premise import Premise
from exhume.support.text import plural
from exhume.target.published import Count


class Outcome(StrEnum):
    """What an audit showed.

    Examples:
        >>> from exhume.scoring.outcome import Outcome
        >>> [outcome.value for outcome in Outcome]
        ['recovered', 'not-recovered', 'inconclusive', 'not-recoverable']
    """

    RECOVERED = "recovered"  # some or all samples, by certificate, or by the truth against a baseline
    NOT_RECOVERED = "not-recovered"  # the data are in the weights; this search did not find them
    INCONCLUSIVE = "inconclusive"  # neither is shown
    NOT_RECOVERABLE = "not-recoverable"  # fewer equations than unknowns in all published layers together


@dataclass(frozen=True)
class Judgement:
    """An outcome, and the one sentence that says why it is this one."""

    outcome: Outcome
    reason: str


def judge(
    result: Reconstruction | None,
    score: Score | None = None,
    premise: Premise | None = None,
    count: Count | None = None,
    reason: str = "",
) -> Judgement:
    """Judges one model.

    Args:
        result: what the attack returned; None if none could be run.
        score: of it against the truth; None without the truth, or if the attack diverged.
        premise: the equation at the truth; None without the truth.
        count: equations and unknowns over all published layers; None if the number of samples is not known.
        reason: why no attack could be run.
    """
    found = findings_of(result, score)
    shown = _shown(result, found, premise)
    if shown is not None:
        return shown
    if count is not None and not count.determined:
        outcome = Outcome.NOT_RECOVERABLE if count.shows_too_few else Outcome.INCONCLUSIVE
        return Judgement(outcome, count.sentence)
    if premise is not None and premise.holds:
        return Judgement(Outcome.NOT_RECOVERED, premise.sentence)
    return Judgement(Outcome.INCONCLUSIVE, _open(result, found, premise, reason))


def _shown(result: Reconstruction | None, found: Findings, premise: Premise | None) -> Judgement | None:
    """The outcome if the result shows something of the training data, or claims to; None if it does not."""
    if found.recovered > 0:
        return Judgement(Outcome.RECOVERED, "The training data that were given confirm recovered samples.")
    if result is not None and found.certified > 0:
        if not found.scored or found.confirmed > 0:
            return Judgement(Outcome.RECOVERED, "Recovered samples are certified.")
        return _contradicted(result, found, premise)
    if found.recognised > 0:
        return Judgement(
            Outcome.NOT_RECOVERED,
            "What came back is closer to the training data than to samples that were not trained on.",
        )
    return None


def _contradicted(result: Reconstruction, found: Findings, premise: Premise | None) -> Judgement:
    """Samples are certified, and the truth confirms none of them: the premise at the truth says which is wrong."""
    certified = plural(found.certified, "sample")
    if premise is not None and premise.holds:
        return Judgement(
            Outcome.NOT_RECOVERED,
            f"The attack certifies {certified}, wrongly: the training data that were given explain the weights, and "
            "none of the recovered samples is among them.",
        )
    if result.certificate.verdict == EXACT:
        return Judgement(
            Outcome.RECOVERED,
            f"{certified} {'is' if found.certified == 1 else 'are'} certified as exact; the training data that were "
            "given neither confirm them nor explain the weights, so they are not the data of this model, or prepared "
            "in another way.",
        )
    return Judgement(
        Outcome.INCONCLUSIVE,
        f"The attack certifies {certified}, and the training data that were given confirm none of them: one of the two "
        "is wrong.",
    )


def _open(result: Reconstruction | None, found: Findings, premise: Premise | None, reason: str) -> str:
    """Why nothing is decided: the first cause that applies."""
    if result is None:
        return f"No attack was run. {reason}".strip()
    if result.stop is Stop.DIVERGED:
        return "The attack diverged, so nothing was tested."
    if found.enough_equations is False:
        return (
            "The attack solves fewer equations than it has unknowns, which shows nothing of what the other published "
            "layers that moved in training hold."
        )
    if premise is not None and premise.holds is False:
        return premise.sentence
    if result.stop in (Stop.PASS_LIMIT, Stop.TIME_LIMIT, Stop.STEP_LIMIT):
        return "The attack spent its budget, and whether its equation holds for this model is not known."
    if premise is None:
        return "Whether the attack's equation holds for this model is not known: the training data were not given."
    return premise.sentence
