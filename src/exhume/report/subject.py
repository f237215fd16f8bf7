"""What a report is about: one attack on one model, and the counts that its verdict and remedies rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from exhume import __version__
from exhume.attacks import ATTACKS, Unmix
from exhume.data import Dataset
from exhume.defences import Outcome
from exhume.law import LABELS_ONLY, NOT_EVEN_LABELS, Forecast
from exhume.report.content import Fact
from exhume.results.certificate import EXACT_BELOW, FAILED, RECOVERED_BELOW
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import Score

# An error below which an image can be recognised, and the share of the error of chance that it must stay below.
RECOGNISABLE_BELOW, _CHANCE_SHARE = 0.5, 0.6
CERTAIN, LIKELY, NOT_TRUSTED = "certain", "likely", "not trusted"


@dataclass(frozen=True)
class Findings:
    """Counts of returned rows and of true samples.

    Attributes:
        enough_equations: whether there are more equations than unknowns, in all and for each sample; None if neither
            certificate nor law says so.
        rows: that the attack returned; 0 if it could not be run.
        certified: rows whose expected error is below RECOVERED_BELOW.
        scored: whether the training data were given.
        recovered: true samples that were recovered; 0 without the truth.
        sought: true samples that were looked for; 0 without the truth.
        mistaken: certified rows that the truth does not confirm.
        unexpected: true samples that were recovered by a row that is not certified.
        recognisable: true samples with an error below RECOGNISABLE_BELOW and far below that of chance.
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
    recognisable: int = 0
    closest: float | None = None
    up_to_sign: bool = False

    @property
    def confirmed(self) -> int:
        """Certified rows that the truth does not contradict."""
        return self.certified - self.mistaken


@dataclass(frozen=True)
class Subject:
    """One attack on one model, and what is known of the model and its data.

    Attributes:
        name: of the model, in the user's words.
        result: what the attack recovered; None if it could not be run.
        reason: why there is no result.
        forecast: what the law says of the sizes; None if the number of samples is not known.
        input_shape: of one sample.
        dataset: the training data and how samples are images or records, as far as they were given. Without a format
            each sample is stretched to its own range if its shape is that of an image.
        score: of the result against the training samples.
        class_names: of the outputs, for labels.
        defences: what the same attack found on altered copies.
        notes: sentences for the section Notes.
        provenance: versions (that of exhume among them), files, dates.
        redacted: blur images and withhold values.
    """

    name: str
    result: Reconstruction | None
    forecast: Forecast | None
    input_shape: tuple[int, ...]
    reason: str = ""
    dataset: Dataset | None = None
    score: Score | None = None
    class_names: Sequence[str] = ()
    defences: Sequence[Outcome] = ()
    notes: Sequence[str] = ()
    provenance: Sequence[Fact] = (Fact("exhume", __version__),)
    redacted: bool = False

    @property
    def beyond_the_head(self) -> str:
        """What the attack read that the forecast does not count: "the first layer", "other layers", or nothing."""
        method = "" if self.result is None else self.result.method
        if method not in ATTACKS or ATTACKS[method].reads_head_only:
            return ""
        return "the first layer" if method == Unmix.name else "other layers"

    @cached_property
    def findings(self) -> Findings:
        """Counts of what the attack certifies and of what the truth confirms."""
        result, score, forecast = self.result, self.score, self.forecast
        if result is None:
            return Findings(None if forecast is None else forecast.verdict not in (NOT_EVEN_LABELS, LABELS_ONLY))
        enough = result.certificate.determined
        certified = {row for row, word in enumerate(certainties(result)) if word != NOT_TRUSTED}
        rows, up_to_sign = len(result.samples), not result.signs_determined
        if score is None:
            return Findings(enough, rows, len(certified), up_to_sign=up_to_sign)
        errors = score.claimed_errors
        good = {match.row for match, error in zip(score.matches, errors, strict=True) if error < RECOVERED_BELOW}
        chance = min(score.baseline_random, score.baseline_non_members or score.baseline_random)
        recognisable_below = min(RECOGNISABLE_BELOW, _CHANCE_SHARE * chance)
        return Findings(
            enough,
            rows,
            len(certified),
            scored=True,
            recovered=score.claimed_recovered,
            sought=score.num_samples,
            mistaken=len(certified - good - set(score.duplicates)),
            unexpected=len(good - certified),
            recognisable=sum(error < recognisable_below for error in errors),
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
