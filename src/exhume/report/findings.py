"""What was shown of a model: which rows the attack vouches for, which of them the truth confirms, what the law allows.

Certificates speak without the truth; the truth, where it was given, confirms or contradicts them. Everything that a
report says of a recovery is said from these counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exhume.certificate import EXACT_BELOW, FAILED
from exhume.law import LABELS_ONLY, NOT_EVEN_LABELS, Forecast
from exhume.reconstruction import Reconstruction
from exhume.report.subject import Subject
from exhume.scoring import RECOVERED_BELOW, Match, Score

# An error below which a picture can be recognised, and the share of what chance gets that it must stay below.
RECOGNISABLE_BELOW, _CHANCE_SHARE = 0.5, 0.6
CERTAIN, LIKELY, NOT_TRUSTED = "certain", "likely", "not trusted"


@dataclass(frozen=True)
class Findings:
    """Counts of rows and samples.

    Attributes:
        rows: that the attack returned; 0 if it could not be run.
        vouched: rows that it expects to be within RECOVERED_BELOW of a training sample.
        scored: whether the truth was given.
        recovered: true samples that came back within RECOVERED_BELOW; 0 without the truth.
        sought: true samples that were looked for; 0 without the truth.
        mistaken: rows that it vouches for and the truth does not confirm.
        unexpected: samples that came back though it does not vouch for their rows.
        enough_equations: whether there are more equations than unknowns; None if neither certificate nor law tells.
        recognisable: samples that came back with an error below RECOGNISABLE_BELOW, far below chance.
        closest: the smallest error of a sample; None without the truth.
        up_to_sign: whether samples are compared up to sign, because the attack does not claim their signs.
    """

    rows: int
    vouched: int
    scored: bool
    recovered: int
    sought: int
    mistaken: int
    unexpected: int
    enough_equations: bool | None
    up_to_sign: bool
    recognisable: int = 0
    closest: float | None = None

    @property
    def confirmed(self) -> int:
        """Rows that the attack vouches for and nothing contradicts."""
        return self.vouched - self.mistaken


def of(subject: Subject) -> Findings:
    """Counts what was shown of a subject."""
    result, score = subject.result, subject.score
    if result is None:
        return Findings(0, 0, False, 0, 0, 0, 0, _law_allows(subject.forecast), False)
    trusted = {row for row, word in enumerate(certainties(result)) if word != NOT_TRUSTED}
    certificate = result.certificate
    enough = certificate.equations > certificate.unknowns
    signed = result.signs_determined
    if score is None:
        return Findings(len(result.samples), len(trusted), False, 0, 0, 0, 0, enough, not signed)
    errors = [claimed_error(match, result) for match in score.matches]
    good = {match.row for match in score.matches if claimed_error(match, result) < RECOVERED_BELOW}
    return Findings(
        rows=len(result.samples),
        vouched=len(trusted),
        scored=True,
        recovered=recovered_of(score, result),
        sought=score.num_samples,
        mistaken=len(trusted - good - set(score.duplicates)),
        unexpected=len(good - trusted),
        enough_equations=enough,
        up_to_sign=not signed,
        recognisable=sum(error < _recognisable_below(score) for error in errors),
        closest=min(errors, default=None),
    )


def _recognisable_below(score: Score) -> float:
    """The error below which a sample resembles its match far more than chance does."""
    chance = min(score.baseline_random, score.baseline_non_members or score.baseline_random)
    return min(RECOGNISABLE_BELOW, _CHANCE_SHARE * chance)


def certainties(result: Reconstruction) -> Sequence[str]:
    """For every row how far the certificate vouches for it."""
    certificate, count = result.certificate, len(result.samples)
    if certificate.verdict == FAILED or len(certificate.predicted_errors) != count:
        return [NOT_TRUSTED] * count
    return [
        CERTAIN if error < EXACT_BELOW else LIKELY if error < RECOVERED_BELOW else NOT_TRUSTED
        for error in certificate.predicted_errors
    ]


def claimed_error(match: Match, result: Reconstruction) -> float:
    """The error that the attack answers for: up to sign where it does not claim signs."""
    return match.error if result.signs_determined else match.error_up_to_sign


def recovered_of(score: Score, result: Reconstruction) -> int:
    """True samples that came back, up to sign where the attack does not claim signs."""
    return score.recovered if result.signs_determined else score.recovered_up_to_sign


def _law_allows(forecast: Forecast | None) -> bool | None:
    return None if forecast is None else forecast.verdict not in (NOT_EVEN_LABELS, LABELS_ONLY)
