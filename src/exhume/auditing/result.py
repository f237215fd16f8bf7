"""The outcome of an audit: verdict, forecast, reconstruction, score, defences, and what exceeded its threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from exhume.auditing.attempts import Attempt
from exhume.auditing.exit_code import exit_code
from exhume.auditing.ladder import dependence
from exhume.auditing.settings import Settings
from exhume.auditing.thresholds import Threshold
from exhume.data import Dataset
from exhume.defences import Outcome as DefenceOutcome
from exhume.defences import where_recovery_ends
from exhume.estimators.findings import PipelineFindings
from exhume.law import Forecast
from exhume.report import Fact, Report, Subject, of_subject, page
from exhume.results.certificate import FAILED
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import Score
from exhume.scoring.comparison import row
from exhume.scoring.findings import Findings
from exhume.scoring.outcome import Judgement, Outcome
from exhume.scoring.premise import Premise
from exhume.target.diagnosis import Finding
from exhume.target.published import Count

_FRAME = 800  # pixels that a page takes in a notebook
_ATTEMPT_NUMBERS = ("verdict", "stop", "residual", "passes", "seconds", "predicted_error")


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        settings: what was asked.
        forecast: of the law; None if the number of samples is known neither beforehand nor from the attack.
        result: the reconstruction with the best certificate; None if no attack could be run.
        score: of it against the truth, if that was given.
        premise: the attack's equation at the truth, if that was given.
        count: equations and unknowns over all published layers; None if the number of samples is not known.
        attempts: every attack that was tried.
        defences: what the attack found on altered copies.
        dataset: the owner's data; what was not given has no rows.
        input_shape: of one sample.
        diagnosis: what the weights show of the training.
        notes: what else a reader should know.
        provenance: versions, files and dates.
        folder: where it was written; None if it was not.
        pipeline: the steps of a scikit-learn estimator; None for networks.

    Examples:
        >>> import exhume
        >>> from exhume import data
        >>> sphere = data.load("sphere", dim=8, samples=4)
        >>> victim = exhume.RandomFeatures(num_features=200).fit(sphere.inputs, sphere.labels)
        >>> found = exhume.audit(victim.target(knowledge=exhume.Knowledge(num_samples=4)))
        >>> found.result.certificate.verdict, found.score is None  # the truth was not given
        ('exact', True)
        >>> found.measured["law"]
        'reconstructible'
    """

    settings: Settings
    forecast: Forecast | None
    result: Reconstruction | None
    score: Score | None
    premise: Premise | None
    count: Count | None
    attempts: tuple[Attempt, ...]
    defences: tuple[DefenceOutcome, ...]
    dataset: Dataset
    input_shape: tuple[int, ...]
    diagnosis: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    provenance: tuple[Fact, ...] = ()
    folder: Path | None = None
    pipeline: PipelineFindings | None = None

    @property
    def reason(self) -> str:
        """Why there is no result."""
        return " ".join(f"{each.method}: {each.reason}." for each in self.attempts if each.reason)

    @property
    def count_notes(self) -> tuple[str, ...]:
        """What a reader must know of the number of samples: which were tried, and a truth of another length."""
        notes = [dependence(each.ladder) for each in self.attempts if each.ladder]
        told = self.settings.num_samples if self.result is None else self.result.knowledge.count
        given, on_ladder = self.dataset.num_samples, bool(notes)
        if given and told is not None and told != given and not on_ladder:
            notes.append(
                f"The attack was told to look for {told:,} samples, but the truth that was given has {given:,}. With "
                "another number than the model was trained on, attacks on the head usually fail."
            )
        return tuple(notes)

    @cached_property
    def subject(self) -> Subject:
        """What the report is about."""
        return Subject(
            name=self.settings.title,
            input_shape=self.input_shape,
            forecast=self.forecast,
            class_names=self.settings.classes,
            dataset=self.dataset,
            result=self.result,
            reason=self.reason,
            score=self.score,
            premise=self.premise,
            count=self.count,
            redacted=self.settings.redact,
            show_truth=self.settings.show_truth,
            defences=self.defences,
            diagnosis=self.diagnosis,
            notes=(*self.count_notes, *self.notes),
            provenance=self.provenance,
            pipeline=self.pipeline,
        )

    @cached_property
    def report(self) -> Report:
        """The page as plain values."""
        return of_subject(self.subject)

    @property
    def findings(self) -> Findings:
        """Counts of what the attack certifies and of what the truth confirms."""
        return self.subject.findings

    @property
    def judgement(self) -> Judgement:
        """The outcome and why it is this one."""
        return self.subject.judgement

    @property
    def outcome(self) -> Outcome:
        """Recovered, not recovered (though in the weights), inconclusive, or not recoverable."""
        return self.judgement.outcome

    @property
    def measured(self) -> Mapping[str, Any]:
        """What thresholds are compared with; None where it could not be measured.

        An attack refused for too few equations recovers nothing. If no certified sample matches the given training
        data, the data or the certificate is wrong, so thresholds that need the truth are reported as not measured.
        """
        score, found = self.score, self.findings
        certificate = self.result.certificate if self.result is not None else None
        counts = certificate or self.forecast
        nothing = self.result is None and any(each.too_few_equations for each in self.attempts)
        recovered = error = None
        if score is not None and not (found.certified and not found.confirmed):
            recovered, error = found.recovered, score.claimed_error
        elif nothing and self.dataset.num_samples:
            recovered, error = 0, math.inf
        expected = math.inf if nothing or (certificate and certificate.predicted_error is None) else None
        return {
            "recovered": recovered,
            "share": None if recovered is None else recovered / max(score.num_samples if score else 1, 1),
            "certain": found.certified if certificate or nothing else None,
            "error": error,
            "closest": None if recovered is None else math.inf if nothing else found.closest,
            "predicted_error": expected if expected or certificate is None else certificate.predicted_error,
            "equations_per_unknown": None if counts is None else counts.equations / max(counts.unknowns, 1),
            "verdict": certificate.verdict if certificate else FAILED if nothing else None,
            "law": self.forecast.verdict if self.forecast else None,
        }

    @property
    def exceeded(self) -> tuple[Threshold, ...]:
        """The thresholds of `fail_on` that were reached."""
        return tuple(each for each in self.settings.fail_on if each.reached_by(self.measured))

    @property
    def unmeasured(self) -> tuple[Threshold, ...]:
        """The thresholds of `fail_on` that could not be measured: neither passed nor failed."""
        return tuple(each for each in self.settings.fail_on if each.reached_by(self.measured) is None)

    @property
    def exit_code(self) -> int:
        """0, 1 if a threshold was reached, 3 if the outcome is open or a threshold could not be measured."""
        reached = [each.reached_by(self.measured) for each in self.settings.fail_on]
        return exit_code(self.outcome, reached, allow_inconclusive=self.settings.allow_inconclusive)

    @property
    def passed(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    def summary(self) -> str:
        """The verdict in plain lines, for a terminal."""
        verdict = self.report.verdict
        lines = [f"{self.settings.title}: {verdict.headline}", *(f"  {each}" for each in verdict.sentences)]
        lines += [f"  {each.sentence}" for each in self.attempts if each.result is not None]
        lines += self._premise_lines()
        lines += [f"  {each}" for each in self.count_notes]
        lines += [f"  {each.sentence} {each.advice}".rstrip() for each in self.diagnosis]
        lines += [f"  {each}" for each in where_recovery_ends(self.defences).values()] if self.defences else []
        if self.exceeded:
            lines.append(f"  FAILED: reached {', '.join(map(str, self.exceeded))}")
        if self.unmeasured:
            lines.append(f"  NOT MEASURED: {', '.join(map(str, self.unmeasured))}")
        if self.passed and self.settings.fail_on:
            lines.append(f"  passed: {', '.join(map(str, self.settings.fail_on))} not reached")
        lines.append(f"  outcome: {self.outcome.value}, exit code {self.exit_code}")
        return "\n".join(lines)

    def _premise_lines(self) -> list[str]:
        """What the truth leaves unexplained of every layer, beside what others and the attack leave."""
        if self.premise is None:
            return []
        others = "non-members" if self.premise.non_members else "surrogates"
        lines = [
            f"  {each.layer}: the truth leaves {each.truth:.2g} of the displacement unexplained, {others} "
            f"{each.others:.2g}"
            for each in self.premise.layers
        ]
        return lines if self.result is None else [*lines, f"  the attack leaves {self.result.certificate.residual:.2g}"]

    def to_json(self) -> dict[str, Any]:
        """Everything but tensors and the history, as plain JSON."""
        verdict = self.report.verdict
        return {
            "name": self.settings.title,
            "verdict": {
                "level": verdict.level.value,
                "headline": verdict.headline,
                "sentences": list(verdict.sentences),
            },
            "outcome": self.outcome.value,
            "reason": self.judgement.reason,
            "exit_code": self.exit_code,
            "premise": None if self.premise is None else self.premise.to_json(),
            "count": None if self.count is None else asdict(self.count) | {"sentence": self.count.sentence},
            "measured": page.finite(dict(self.measured)),
            "passed": self.passed,
            "exceeded": [str(each) for each in self.exceeded],
            "unmeasured": [str(each) for each in self.unmeasured],
            "forecast": self.forecast.to_json() if self.forecast else None,
            "method": self.result.method if self.result else None,
            "attempts": [_brief(each) for each in self.attempts],
            "score": self.score.to_json() if self.score else None,
            "defences": [each.to_json() for each in self.defences],
            "count_notes": list(self.count_notes),
            "diagnosis": [each.to_json() for each in self.diagnosis],
            "notes": list(self.notes),
            "pipeline": None if self.pipeline is None else asdict(self.pipeline),
        }

    def write_report(self, path: Path) -> None:
        """Writes the page, readable by its owner alone."""
        page.write(self.report, path)

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for a notebook."""
        return (
            f'<iframe srcdoc="{escape(page.render(self.report))}" title="{escape(self.report.title)}" '
            f'sandbox="allow-scripts allow-downloads" width="100%" height="{_FRAME}"></iframe>'
        )


def _brief(attempt: Attempt) -> dict[str, Any]:
    numbers = row(attempt.result, None) if attempt.result is not None else {}
    return {
        "method": attempt.method,
        "reason": attempt.reason or None,
        "too_few_equations": attempt.too_few_equations,
        "ladder": [asdict(each) for each in attempt.ladder],
        **{name: numbers[name] for name in _ATTEMPT_NUMBERS if name in numbers},
    }
