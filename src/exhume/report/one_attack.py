"""The report on one attack on one model: from a run folder, or from a subject that an audit or a comparison made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from exhume import __version__
from exhume.attacks import total_samples
from exhume.data import Dataset
from exhume.defences import Outcome
from exhume.report.assumptions import diagnosis_facts, list_assumptions, model_card
from exhume.report.charts import convergence_chart, defences_chart, error_bars_chart
from exhume.report.content import Chart, Fact, Report, Table
from exhume.report.key_figures import key_figures, layers_table, premise_table
from exhume.report.model_charts.law import law_chart
from exhume.report.model_charts.unmix import unmix_charts
from exhume.report.of_estimator import of_estimator
from exhume.report.remedies import remedies_of
from exhume.report.samples import gallery_of
from exhume.report.subject import Subject
from exhume.report.verdict import verdict_of
from exhume.results.certificate import RECOVERED_BELOW
from exhume.results.reconstruction import Reconstruction
from exhume.run_folder import RunFolder
from exhume.scoring.against_truth import score_unless_diverged
from exhume.scoring.outcome import Outcome as AuditOutcome
from exhume.scoring.premise import Premise, premise_at
from exhume.target.published import count_published
from exhume.target.target import Target


def of_run(folder: RunFolder, method: str | None = None, redact: bool = False) -> Report:
    """The report on one attack of a run folder.

    Args:
        folder: where `exhume train` and `exhume attack` wrote.
        method: which attack; the newest by default.
        redact: blur pictures and withhold values.
    """
    chosen = folder.chosen(method)
    target, result = folder.load_target(), folder.load_result(chosen)
    folder.check_belongs(result, target)
    secret = folder.load_secret() if folder.holds_secret else None
    return of_subject(subject_of(folder, target, result, secret, redact=redact))


def of_subject(subject: Subject) -> Report:
    """The report on one attack on one model.

    >>> from exhume import law
    >>> from exhume.report import Subject, of_subject
    >>> subject = Subject("a probe", None, law.forecast(100, 30, 20), (30,), reason="too few equations")
    >>> of_subject(subject).verdict.headline
    'Inconclusive: no attack could be run, so nothing is shown of this model.'
    """
    if subject.pipeline is not None:
        return of_estimator(subject, subject.pipeline)
    gallery, verdict, result = gallery_of(subject), verdict_of(subject), subject.result
    origin = tuple(subject.provenance)
    convergence: tuple[Chart, ...] = ()
    if result is not None:
        origin += (Fact("Attack", f"{result.method}, seed {result.seed}"),)
        origin += (Fact("Fingerprint of the target", result.target),)
        convergence = evidence_charts(subject)
        if "zero_shares" not in result.evidence:  # whose charts show more than a residual after the end
            convergence = (convergence_chart({result.method: result}), *convergence)
    chart = defences_chart(subject.defences)
    shows_something = result is not None or subject.judgement.outcome is AuditOutcome.NOT_RECOVERABLE
    return Report(
        title=subject.name,
        verdict=verdict,
        facts=key_figures(subject),
        law=_law(subject),
        samples=gallery.samples,
        samples_note=gallery.note,
        samples_folded=subject.judgement.outcome is not AuditOutcome.RECOVERED and not subject.findings.recognised,
        premise=premise_table(subject),
        fields=gallery.fields,
        diagnosis=diagnosis_facts(subject.diagnosis),
        assumptions=list_assumptions(result) if result is not None else (),
        convergence=convergence,
        layers=layers_table(result),
        defence_charts=() if chart is None else (chart,),
        defence_tables=(defence_table(subject.defences),) if subject.defences else (),
        remedies=remedies_of(subject),
        notes=(*subject.notes, *(() if result is None else result.notes)),
        model_card=model_card(subject, verdict, origin) if shows_something else "",
        provenance=origin,
        redacted=subject.redacted,
    )


def evidence_charts(subject: Subject) -> tuple[Chart, ...]:
    """What else supports a result beside its convergence: singular values, zeros, error bars."""
    result = subject.result
    if result is None:
        return ()
    if len(result.certificate.predicted_errors) != len(result.samples):
        return unmix_charts(result)
    return (*unmix_charts(result), error_bars_chart(result, subject.score))


def _law(subject: Subject) -> Chart | None:
    """The law's chart; where the attack read other layers, it says that these are not counted."""
    if subject.forecast is None:
        return None
    drawn, more = law_chart(subject.forecast), subject.beyond_the_head
    if not more:
        return drawn
    return replace(drawn, caption=f"{drawn.caption} This counts the head only; the attack also read {more}.")


def subject_of(
    folder: RunFolder, target: Target, result: Reconstruction, secret: Dataset | None, *, redact: bool = False
) -> Subject:
    """One result of a run folder as the subject of a report, scored if the truth is given and it did not diverge."""
    score, notes = score_unless_diverged(result, secret, target.features)
    return Subject(
        name=folder.path.resolve().name,
        result=result,
        forecast=target.with_knowledge(result.knowledge).forecast(total_samples(result)),
        input_shape=target.input_shape,
        dataset=secret,
        score=score,
        premise=None if secret is None or not secret.num_samples else _premise(target, result, secret),
        count=count_published(
            target, secret.num_samples if secret else total_samples(result), confirmed=secret is not None
        ),
        provenance=run_provenance(folder.attack(result.method) / "result.json", secret),
        redacted=redact,
        notes=notes,
    )


def _premise(target: Target, result: Reconstruction, secret: Dataset) -> Premise:
    """The attack's equation at the truth."""
    target = target.with_knowledge(result.knowledge)
    complete = secret.num_samples >= total_samples(result)
    return premise_at(target, secret.inputs, secret.comparison_samples, complete=complete)


def run_provenance(file: Path, secret: Dataset | None) -> tuple[Fact, ...]:
    """The version of exhume, when a result was written, and how the data were made."""
    written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    facts = [Fact("exhume", __version__), Fact("Date", written.strftime("%Y-%m-%d"))]
    if secret is not None:
        facts.append(Fact("Training data", secret.protocol))
    return tuple(facts)


def defence_table(outcomes: Sequence[Outcome]) -> Table:
    """Every altered copy, what came back from it and what it cost."""
    return Table.of(
        "Altered copies, attacked",
        [_defence_row(each) for each in outcomes],
        caption=f"Recovered: samples that came back with an error below {RECOVERED_BELOW:g}. "
        'The row "none" is the model as it is.',
        name="defences",
    )


def _defence_row(outcome: Outcome) -> dict[str, Any]:
    return {
        "Defence": outcome.defence,
        "Setting": outcome.setting,
        "Recovered": outcome.recovered,
        "Of": outcome.num_samples,
        "Error": outcome.error,
        "Expected error": outcome.predicted_error,
        "Verdict": outcome.verdict,
        "Training error": outcome.utility.training_error,
        "Held-out error": outcome.utility.held_out_error,
        "Output change": outcome.utility.output_change,
        "Passes": outcome.passes,
        "Seconds": outcome.seconds,
        "Note": "; ".join(filter(None, (outcome.reason and f"not run: {outcome.reason}", outcome.note))) or None,
    }
