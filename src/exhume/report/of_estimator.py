"""The report on a scikit-learn estimator: its steps, the rows that were found, and what would reduce the risk."""

from __future__ import annotations

import math

from exhume.data import TableFormat
from exhume.estimators.findings import FitColumn, PipelineFindings, StepFinding, StepKind
from exhume.estimators.remedies import remedies_for
from exhume.report.content import Fact, Field, Level, PipelineStep, Remedy, Report, Sample, Verdict
from exhume.report.subject import Subject
from exhume.report.verdict import samples_in_words
from exhume.results.certificate import RECOVERED_BELOW
from exhume.scoring.findings import certainties
from exhume.scoring.outcome import Outcome
from exhume.support.text import plural

_LEVELS = {
    StepKind.KEEPS_ROWS: "leak",
    StepKind.RECOVERED: "leak",
    StepKind.NOT_RECOVERED: "partial",
    StepKind.DECLINED: "partial",
    StepKind.STATISTICS: "open",
    StepKind.NOTHING: "ok",
}
# Significant digits of a column whose decimals are not known.
_DIGITS = 10
_UNITS = (
    "Rows are in the units in which they were passed to fit: the steps before were undone with what they store. Errors "
    "are measured with every column divided by its standard deviation in the truth."
)


def of_estimator(subject: Subject, pipeline: PipelineFindings) -> Report:
    """The page of one estimator."""
    result = subject.result
    samples = () if result is None else _samples(subject, pipeline.columns)
    attack = () if result is None else (Fact("Method", result.method), Fact("Fingerprint of the rows", result.target))
    return Report(
        title=subject.name,
        verdict=_verdict(subject, pipeline),
        pipeline=tuple(_step(each) for each in pipeline.steps),
        facts=_facts(subject, pipeline),
        samples=samples,
        samples_note=_UNITS if samples and not subject.redacted else "",
        fields=() if subject.redacted else _fields(subject, pipeline.columns),
        remedies=tuple(Remedy(title, text) for title, text in remedies_for(pipeline)),
        notes=(*subject.notes, *(() if result is None else result.notes)),
        provenance=(*subject.provenance, *attack),
        redacted=subject.redacted,
    )


def _step(found: StepFinding) -> PipelineStep:
    status = str(found.kind)
    if found.rows:
        word = "kept" if found.kind is StepKind.KEEPS_ROWS else "recovered"
        status = f"{plural(found.rows, 'row')} {word}"
    sentences = tuple(_ended(f"{each[:1].upper()}{each[1:]}") for each in (found.reason, *found.leaks) if each)
    return PipelineStep(found.path, found.name, status, _LEVELS[found.kind], sentences)


def _verdict(subject: Subject, pipeline: PipelineFindings) -> Verdict:
    """The headline; level and colour follow from the outcome. A step that was not examined is never called safe."""
    found, result, judged = subject.findings, subject.result, subject.judgement
    kept = [each for each in pipeline.steps if each.kind is StepKind.KEEPS_ROWS]
    open_steps = [each for each in pipeline.steps if each.kind in (StepKind.DECLINED, StepKind.NOT_RECOVERED)]
    sentences = [] if result is None else [result.certificate.reason]
    if judged.outcome is Outcome.RECOVERED:
        shown = found.recovered if found.scored else found.certified
        total = found.sought if found.scored else found.rows
        rows = samples_in_words(shown, total, "training rows" if found.scored else "rows that were found")
        attacked = [each for each in open_steps if each.kind is StepKind.NOT_RECOVERED]  # right rows, not certified
        leaking = [each for each in pipeline.steps if each.rows] or attacked
        where = " and ".join(dict.fromkeys(each.name for each in leaking))
        verb = "stands" if shown == 1 else "stand"
        headline = (
            f"This file holds its training data: {rows} {verb} in it ({where})."
            if kept
            else f"This model gives away its training data: {rows} can be computed from its weights ({where})."
        )
        if found.scored and not found.recovered:
            headline = "This model gives away rows, but the rows that were given are not among them."
            sentences.append(judged.reason)
        level = Level.LEAK if 2 * shown >= total and shown else Level.PARTIAL
        return Verdict(level, headline, (*sentences, *_compared(subject)))
    if judged.outcome is Outcome.NOT_RECOVERABLE:
        headline = "The training rows cannot be determined from this estimator: it is too small to hold them."
        return Verdict(Level.OUT_OF_REACH, headline, (judged.reason, "What it tells of all rows together is below."))
    level = Level.IN_WEIGHTS if judged.outcome is Outcome.NOT_RECOVERED else Level.INCONCLUSIVE
    if kept:
        count = plural(sum(each.rows for each in kept), "training row")
        headline = f"This file holds {count}, though not in the units in which they were passed to fit."
        return Verdict(level, headline, (*sentences, *_reasons(kept), *_compared(subject)))
    headline = "No training row was found in this estimator; that is no proof of safety."
    return Verdict(level, headline, (*(_reasons(open_steps) or sentences), *_compared(subject)))


def _reasons(steps: list[StepFinding]) -> list[str]:
    return [
        _ended(f"{each.name} ({each.path}): {each.reason}" if each.path else f"{each.name}: {each.reason}")
        for each in steps
    ]


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _compared(subject: Subject) -> list[str]:
    found = subject.findings
    if subject.result is None:
        return []
    if not found.scored:
        return ["The training rows were not given, so that what was found was compared with nothing."]
    errors = () if subject.score is None else [each for each in subject.score.claimed_errors if each < RECOVERED_BELOW]
    largest = f", at most {max(errors):.1g}" if errors else ""
    return [
        f"Compared with the rows that were given, {samples_in_words(found.recovered, found.sought, 'training rows')} "
        f"came back with an error below {RECOVERED_BELOW:g}{largest}."
    ]


def _facts(subject: Subject, pipeline: PipelineFindings) -> tuple[Fact, ...]:
    facts, score, result = [], subject.score, subject.result
    if result is not None:
        facts.append(Fact("Rows found", f"{len(result.samples):,}", f"of {result.samples.shape[1]:,} columns"))
    if score is not None:
        explained = f"error against the truth below {RECOVERED_BELOW:g}"
        facts.append(Fact("Recovered", f"{score.recovered:,} of {score.num_samples:,}", explained))
        facts.append(Fact("Mean error", f"{score.error:.2g}", f"random rows have {score.baseline_random:.2g}"))
    if result is not None:
        facts.append(Fact("Certificate", result.certificate.verdict, result.certificate.reason))
    unexamined = sum(each.kind is StepKind.DECLINED for each in pipeline.steps)
    facts.append(Fact("Steps", f"{len(pipeline.steps)}", f"{unexamined} of them not examined"))
    return tuple(facts)


def _samples(subject: Subject, columns: tuple[FitColumn, ...]) -> tuple[Sample, ...]:
    result, score = subject.result, subject.score
    assert result is not None
    matches = {} if score is None else {match.row: match for match in score.matches}
    bars = result.certificate.predicted_errors or (None,) * len(result.samples)
    truth = subject.dataset.inputs.tolist() if subject.dataset is not None and score is not None else []
    samples = []
    for row, (values, word) in enumerate(zip(result.samples.tolist(), certainties(result), strict=True)):
        match = matches.get(row)
        shown = match is not None and (match.error < RECOVERED_BELOW or subject.show_truth) and not subject.redacted
        true = _decoded(truth[match.truth_index], columns) if match is not None and shown else ()
        samples.append(
            Sample(
                row=row,
                certainty=word,
                error_bar=bars[row],
                record=() if subject.redacted else _decoded(values, columns),
                true_record=true,
                error=None if match is None else match.error,
                truth_index=None if match is None else match.truth_index,
            )
        )
    return tuple(sorted(samples, key=lambda each: (math.inf if each.error_bar is None else each.error_bar, each.row)))


def _decoded(values: list[float], columns: tuple[FitColumn, ...]) -> tuple[float | str, ...]:
    """Numbers, and the names of categories; a code that rounding moved becomes the nearest category."""
    decoded: list[float | str] = []
    for value, column in zip(values, columns, strict=True):
        place = min(max(round(value), 0), len(column.categories) - 1) if column.categories else 0
        decoded.append(column.categories[place] if column.categories else value)
    return tuple(decoded)


def _fields(subject: Subject, columns: tuple[FitColumn, ...]) -> tuple[Field, ...]:
    """The columns with the decimals of the truth; without it, with ten significant digits."""
    result = subject.result
    if result is None:
        return ()
    table = subject.dataset.table if subject.dataset is not None else None
    known = table.columns if isinstance(table, TableFormat) else (None,) * len(columns)
    fields = []
    for place, (column, described) in enumerate(zip(columns, known, strict=True)):
        largest = float(result.samples[:, place].abs().max())
        digits = _DIGITS - 1 - (math.floor(math.log10(largest)) if largest > 0 else 0)
        decimals = described.decimals if described is not None and described.decimals is not None else digits
        fields.append(Field(column.name, decimals=min(max(decimals, 0), 15)))
    return tuple(fields)
