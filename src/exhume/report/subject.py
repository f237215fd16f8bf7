"""What a report is about: one attack on one model, and the counts that its verdict and remedies rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from exhume import __version__
from exhume.attacks import ATTACKS, Unmix
from exhume.data import Dataset
from exhume.defences import Outcome
from exhume.estimators.findings import PipelineFindings
from exhume.law import Forecast
from exhume.report.content import Fact
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import Score
from exhume.scoring.findings import Findings, findings_of
from exhume.scoring.outcome import Judgement, judge
from exhume.scoring.premise import Premise
from exhume.target.diagnosis import Finding
from exhume.target.published import Count


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
        premise: the attack's equation at the training samples.
        count: equations and unknowns over all published layers; None if the number of samples is not known.
        class_names: of the outputs, for labels.
        defences: what the same attack found on altered copies.
        diagnosis: what the weights show of the training.
        notes: sentences for the section Notes.
        provenance: versions (that of exhume among them), files, dates.
        redacted: blur images and withhold values.
        show_truth: show true samples also where nothing was recovered.
        pipeline: the steps of a scikit-learn estimator; None for networks.
    """

    name: str
    result: Reconstruction | None
    forecast: Forecast | None
    input_shape: tuple[int, ...]
    reason: str = ""
    dataset: Dataset | None = None
    score: Score | None = None
    premise: Premise | None = None
    count: Count | None = None
    class_names: Sequence[str] = ()
    defences: Sequence[Outcome] = ()
    diagnosis: Sequence[Finding] = ()
    notes: Sequence[str] = ()
    provenance: Sequence[Fact] = (Fact("exhume", __version__),)
    redacted: bool = False
    show_truth: bool = False
    pipeline: PipelineFindings | None = None

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
        return findings_of(self.result, self.score)

    @cached_property
    def judgement(self) -> Judgement:
        """The outcome and why it is this one."""
        return judge(self.result, self.score, self.premise, self.count, self.reason)
