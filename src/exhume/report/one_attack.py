"""From a subject to its report: one attack on one model, told on one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exhume.defences import Outcome
from exhume.report import assumptions, findings, model_card, remedies, samples
from exhume.report.charts import convergence_chart, error_bars_chart, law_chart
from exhume.report.charts_of_many import defences_chart
from exhume.report.content import Chart, Fact, Report, Table
from exhume.report.findings import recovered_of
from exhume.report.subject import Subject
from exhume.report.svg import number
from exhume.report.words import verdict_of
from exhume.scoring import RECOVERED_BELOW
from exhume.version import VERSION


def of_subject(subject: Subject) -> Report:
    """The report on one attack on one model.

    >>> from exhume import law
    >>> from exhume.report import Subject, of_subject
    >>> subject = Subject("a probe", None, law.forecast(100, 30, 20), (30,), reason="too few equations")
    >>> of_subject(subject).verdict.headline
    'The training samples cannot be determined from the weights of the head alone.'
    """
    gallery, verdict, result = samples.of(subject), verdict_of(subject), subject.result
    provenance = _provenance(subject)
    bars = result is not None and len(result.certificate.predicted_errors) == len(result.samples)
    convergence: list[Chart] = []
    if result is not None:
        convergence.append(convergence_chart({result.method: result}))
        if bars:
            convergence.append(error_bars_chart(result, subject.score))
    chart = defences_chart(subject.defences)
    return Report(
        title=subject.name,
        verdict=verdict,
        facts=_facts(subject),
        law=law_chart(subject.forecast) if subject.forecast is not None else None,
        samples=gallery.samples,
        samples_note=gallery.note,
        fields=gallery.fields,
        assumptions=assumptions.of(result) if result is not None else (),
        convergence=tuple(convergence),
        defence_charts=() if chart is None else (chart,),
        defence_tables=(defence_table(subject.defences),) if subject.defences else (),
        remedies=remedies.of(subject),
        notes=(*subject.notes, *(() if result is None else result.notes)),
        model_card=model_card.of(subject, verdict, provenance) if _was_judged(subject) else "",
        provenance=provenance,
        redacted=subject.redacted,
    )


def _was_judged(subject: Subject) -> bool:
    """Whether there is anything to tell the world: an attack ran, or the law rules it out."""
    return subject.result is not None or findings.of(subject).enough_equations is False


def defence_table(outcomes: Sequence[Outcome]) -> Table:
    """Every altered copy, what came back from it and what it cost."""
    rows = [_defence_row(each) for each in outcomes]
    told = {name: [row[name] for row in rows] for name in rows[0]}
    kept = {name: cells for name, cells in told.items() if any(cell is not None for cell in cells)}
    return Table(
        "Altered copies, attacked",
        tuple(kept),
        tuple(zip(*kept.values(), strict=True)),
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


def _facts(subject: Subject) -> tuple[Fact, ...]:
    result, forecast, score = subject.result, subject.forecast, subject.score
    facts = []
    if result is not None:
        facts.append(Fact("Samples looked for", f"{len(result.samples):,}", f"of {result.samples.shape[1]:,} numbers"))
    if result is not None and score is not None:
        count = f"{recovered_of(score, result):,} of {score.num_samples:,}"
        sign = "" if result.signs_determined else ", up to sign"
        facts.append(Fact("Recovered", count, f"error against the truth below {RECOVERED_BELOW:g}{sign}"))
        error = score.error if result.signs_determined else score.error_up_to_sign
        facts.append(
            Fact("Mean error", f"{error:.2g}", f"against the truth; random vectors have {score.baseline_random:.2g}")
        )
    if forecast is not None:
        facts.append(Fact("Weights of the head", f"{forecast.num_parameters:,}", "parameters that the law counts"))
        facts.append(Fact("p / dn", number(forecast.ratio), forecast.verdict))
    if result is not None:
        facts += _attack_facts(subject)
    return tuple(facts)


def _attack_facts(subject: Subject) -> list[Fact]:
    result = subject.result
    assert result is not None
    certificate = result.certificate
    facts = [
        Fact("Certificate", certificate.verdict, certificate.reason),
        Fact(
            "Equations",
            f"{certificate.equations:,}",
            f"for {certificate.unknowns:,} unknowns: {certificate.equations / max(certificate.unknowns, 1):.3g} each",
        ),
        Fact("Relative residual", f"{certificate.residual:.1e}", f"rounding alone: {certificate.floor:.1e}"),
    ]
    if certificate.predicted_error is not None:
        worst = f"worst sample {max(certificate.predicted_errors):.1e}"
        facts.append(Fact("Expected error", f"{certificate.predicted_error:.1e}", worst))
    facts.append(Fact("Method", result.method, result.stop.sentence))
    facts.append(
        Fact("Cost", f"{result.passes:,.0f}", f"feature passes; {result.seconds:.1f} s, {result.steps:,} steps")
    )
    return facts


def _provenance(subject: Subject) -> tuple[Fact, ...]:
    """What the subject says of its origin, with the version of the tool and the attack's seed."""
    facts = list(subject.provenance)
    if not any(fact.name.lower() == "exhume" for fact in facts):
        facts.insert(0, Fact("exhume", VERSION))
    if subject.result is not None:
        facts.append(Fact("Attack", f"{subject.result.method}, seed {subject.result.seed}"))
        facts.append(Fact("Fingerprint of the target", subject.result.target))
    return tuple(facts)
