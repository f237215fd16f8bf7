"""Counts of what an attack certifies and of what the truth confirms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exhume.results.certificate import EXACT_BELOW, FAILED, RECOVERED_BELOW
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import Score

# An error below which an image can be recognised.
RECOGNISABLE_BELOW = 0.5
CERTAIN, LIKELY, NOT_TRUSTED = "certain", "likely", "not trusted"


@dataclass(frozen=True)
class Findings:
    """Counts of returned rows and of true samples.

    Attributes:
        enough_equations: whether the attack had more equations than unknowns, in all and for each sample; None if it
            was not run.
        rows: that the attack returned; 0 if it could not be run.
        certified: rows whose expected error is below RECOVERED_BELOW.
        scored: whether the training data were given.
        recovered: true samples that were recovered, unless as many samples that were not trained on would be too; 0
            without the truth.
        sought: true samples that were looked for; 0 without the truth.
        mistaken: certified rows that the truth does not confirm.
        unexpected: true samples that were recovered by a row that is not certified.
        recognised: true samples with an error below RECOGNISABLE_BELOW that are closer to the rows than samples that
            were not trained on, by a permutation test; 0 without such samples.
        closest: the smallest error of a sample; None without the truth.
        up_to_sign: whether errors are up to sign, because the attack does not claim signs.
    """

    enough_equations: bool | None
    rows: int = 0
    certified: int = 0
    scored: bool = False
    recovered: int = 0
    sought: int = 0
    mistaken: int = 0
    unexpected: int = 0
    recognised: int = 0
    closest: float | None = None
    up_to_sign: bool = False

    @property
    def confirmed(self) -> int:
        """Certified rows that the truth does not contradict."""
        return self.certified - self.mistaken


def findings_of(result: Reconstruction | None, score: Score | None) -> Findings:
    """Counts what a result certifies and what its score confirms."""
    if result is None:
        return Findings(None)
    enough = result.certificate.determined
    certified = {row for row, word in enumerate(certainties(result)) if word != NOT_TRUSTED}
    rows, up_to_sign = len(result.samples), not result.signs_determined
    if score is None:
        return Findings(enough, rows, len(certified), up_to_sign=up_to_sign)
    errors = score.claimed_errors
    good = {match.row for match, error in zip(score.matches, errors, strict=True) if error < RECOVERED_BELOW}
    baseline = score.baseline
    by_chance = baseline is not None and not baseline.recovery_is_significant
    return Findings(
        enough,
        rows,
        len(certified),
        scored=True,
        recovered=0 if by_chance else score.claimed_recovered,
        sought=score.num_samples,
        mistaken=len(certified - good - set(score.duplicates)),
        unexpected=len(good - certified),
        recognised=0 if baseline is None else baseline.recognised(errors, RECOGNISABLE_BELOW),
        closest=min(errors, default=None),
        up_to_sign=up_to_sign,
    )


def certainties(result: Reconstruction) -> Sequence[str]:
    """For every row how far the certificate says it can be trusted."""
    certificate, count = result.certificate, len(result.samples)
    if certificate.verdict == FAILED or len(certificate.predicted_errors) != count:
        return [NOT_TRUSTED] * count
    return [
        CERTAIN if error < EXACT_BELOW else LIKELY if error < RECOVERED_BELOW else NOT_TRUSTED
        for error in certificate.predicted_errors
    ]
