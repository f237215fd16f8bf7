"""The key figures of a report, each with its unit, and the table of the equation at the training data."""

from __future__ import annotations

from exhume.attacks import Layers
from exhume.report.chart_style import number
from exhume.report.content import Fact, Table
from exhume.report.subject import Subject
from exhume.results.certificate import RECOVERED_BELOW
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import Score
from exhume.support.text import plural

_OF_NORM = "of a sample's norm"


def key_figures(subject: Subject) -> tuple[Fact, ...]:
    """The numbers that a verdict rests on."""
    result, score, count = subject.result, subject.score, subject.count
    facts = [Fact("Outcome", subject.judgement.outcome.value.replace("-", " "))]
    if result is not None:
        facts.append(Fact("Samples looked for", f"{len(result.samples):,}", f"of {result.samples.shape[1]:,} numbers"))
    if result is not None and score is not None:
        facts += _score_facts(subject, score)
    facts += _law_facts(subject)
    if count is not None:
        counted = (
            f"for {count.unknowns:,} unknown numbers, in {plural(len(count.layers), 'published tensor')} that moved"
        )
        facts.append(Fact("Equations, all layers", f"{count.equations:,}", counted))
    if result is not None:
        facts += _attack_facts(result)
    return tuple(facts)


def premise_table(subject: Subject) -> tuple[Table, ...]:
    """What the training data leave unexplained of each layer's displacement; none without the training data."""
    premise, result = subject.premise, subject.result
    if premise is None or not premise.layers:
        return ()
    others = "As many non-members leave (share)" if premise.non_members else "As many surrogates leave (share)"
    rows = [
        {
            "Layer": each.layer.removeprefix("the "),
            "Numbers that moved": each.equations,
            "The training data leave (share)": each.truth,
            others: each.others,
            "Ratio": each.ratio if each.tells else None,
        }
        for each in premise.layers
    ]
    caption = (
        "After the attack, the training data that were given were put into the equation of each layer. The share is "
        "the norm of what the best coefficients leave unexplained of the displacement (trained less initial weights), "
        f"over its norm. {premise.sentence}"
    )
    if result is not None:
        caption += f" The rows that the attack returned leave {result.certificate.residual:.2g} of its own equation."
    return (Table.of("Share of the displacement that is left unexplained", rows, caption=caption, name="premise"),)


def layers_table(result: Reconstruction | None) -> tuple[Table, ...]:
    """What `layers` read: weights with the equations that each gives, or layers by name; none of another attack."""
    if result is None or result.method != Layers.name:
        return ()
    if names := result.evidence.get("parameters"):
        title, caption = "Weights whose displacement was read", "Each number of the displacement is one equation."
        counts = result.evidence.get("equations") or [None] * len(names)
        rows = [{"Weights": name, "Equations": count} for name, count in zip(names, counts, strict=True)]
    else:
        title = "Layers whose row spaces candidates were compared with"
        caption = "The patches that a training sample shows to a layer lie near the row space of its displacement."
        rows = [{"Layer": name} for name in result.evidence.get("layers", ())]
    return (Table.of(title, rows, caption=caption, name="layers"),) if rows else ()


def _score_facts(subject: Subject, score: Score) -> list[Fact]:
    sign = "" if score.signs_claimed else ", up to sign"
    count, baseline = f"{subject.findings.recovered:,} of {score.num_samples:,}", score.baseline
    chance = f"{_OF_NORM}; random vectors have {score.baseline_random:.2g}"
    if score.baseline_non_members is not None:
        chance += f", as many non-members {score.baseline_non_members:.2g}"
    facts = [
        Fact("Recovered", count, f"samples; error against the truth below {RECOVERED_BELOW:g} of the norm{sign}"),
        Fact("Mean error", f"{score.claimed_error:.2g}", chance),
    ]
    if baseline is not None and baseline.p_value is not None:
        tested = f"permutation test of members against {baseline.non_members:,} non-members"
        facts.append(Fact("p-value", f"{baseline.p_value:.2g}", tested))
    if baseline is not None and baseline.true_positive_rate is not None:
        facts.append(
            Fact("Members found", f"{100 * baseline.true_positive_rate:.0f} %", "at 1 % false positives, by closeness")
        )
    return facts


def _law_facts(subject: Subject) -> list[Fact]:
    forecast = subject.forecast
    if forecast is None:
        return []
    alone = ", for the head alone" if subject.beyond_the_head else ""
    explained = "weights of the head (p) for each number in the training data (d inputs x n samples)"
    return [
        Fact("Weights of the head", f"{forecast.num_parameters:,}", "parameters that the law counts"),
        Fact("p / dn", number(forecast.ratio), f"{explained}: {forecast.verdict}{alone}"),
    ]


def _of_residual(result: Reconstruction) -> str:
    """What the residual is a share of."""
    if "uncovered" in result.evidence:
        return "the square root of the share of the layers' row spaces that the samples do not cover"
    return f"of the displacement that was attacked; rounding alone leaves {result.certificate.floor:.2g}"


def _attack_facts(result: Reconstruction) -> list[Fact]:
    certificate = result.certificate
    each = certificate.equations / max(certificate.unknowns, 1)
    facts = [
        Fact("Certificate", certificate.verdict, certificate.reason),
        Fact(
            "Equations, this attack",
            f"{certificate.equations:,}",
            f"for {certificate.unknowns:,} unknowns: {each:.3g} equations per unknown; more than 1 are needed",
        ),
        Fact("Residual", f"{certificate.residual:.2g}", _of_residual(result)),
    ]
    if certificate.predicted_error is not None:
        worst = f"{_OF_NORM}, on average; worst sample {max(certificate.predicted_errors):.2g}"
        facts.append(Fact("Expected error", f"{certificate.predicted_error:.2g}", worst))
    cost = f"feature passes; {result.seconds:.1f} s, {result.steps:,} steps"
    return [*facts, Fact("Method", result.method, result.ending), Fact("Cost", f"{result.passes:,.0f}", cost)]
