"""What would reduce the risk: chosen for this model from what was measured on altered copies, else from the law.

Nothing is recommended that was measured not to help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from exhume import defences
from exhume.attacks import ATTACKS, Replay, Unmix
from exhume.defences.measuring import NONE
from exhume.law import PER_SAMPLE
from exhume.report.charts import COSTS, cost_measured, share_recovered
from exhume.report.content import Remedy
from exhume.report.subject import Subject
from exhume.report.verdict import percent
from exhume.results.certificate import RECOVERED_BELOW
from exhume.results.stop import Stop
from exhume.scoring.outcome import Outcome
from exhume.support.yaml_files import read_yaml
from exhume.target.diagnosis.optimiser_trace import ADAPTIVE

# Share of what is recovered from the model as it is, down to which a defence must bring it to be recommended.
_HELPS_BELOW = 0.5
_HARDLY = 1e-5  # the smallest share that is written as a number
_WHAT = {
    "rounding": "Round the released weights",
    "noise": "Add noise to the released weights",
    "pruning": "Prune the head",
    "coordinates": "Release fewer coordinates of the head",
    "ridge": "Retrain with a ridge penalty or weight decay",
    "samples": "Train on more samples",
    "dp-sgd": "Train with differential privacy (DP-SGD)",  # as in remedies.yaml
}


def remedies_of(subject: Subject) -> tuple[Remedy, ...]:
    """The remedies of one model, measured ones first."""
    remedies, measured = _measured(subject.defences)
    return (*remedies, *_from_the_law(subject, measured), *_against_unmixing(subject), *_always(subject, measured))


def _measured(outcomes: Sequence[defences.Outcome]) -> tuple[list[Remedy], set[str]]:
    """Families by what they left to recover, the best first, then those that did not help; and which were measured."""
    plain = next((each for each in outcomes if each.defence == NONE), None)
    before = share_recovered(plain) if plain is not None else None
    if plain is None or not before:
        return [], set()
    families: dict[str, list[defences.Outcome]] = {}
    for each in outcomes:
        if each.defence != NONE and share_recovered(each) is not None:
            families.setdefault(each.defence, []).append(each)
    best = {name: min(family, key=_by_what_is_left(outcomes)) for name, family in families.items()}
    ranked = sorted(best.values(), key=_by_what_is_left(outcomes))
    helping = [each for each in ranked if _left(each) <= _HELPS_BELOW * before]
    remedies = [
        Remedy(f"{_WHAT.get(each.defence, each.defence.capitalize())}: {each.setting}", _numbers(each, plain))
        for each in helping
    ]
    useless = [max(families[each.defence], key=lambda one: one.strength) for each in ranked if each not in helping]
    if useless:
        measured = " ".join(
            f"{each.defence.capitalize()}: {each.recovered:,} of {each.num_samples:,} samples still came back at "
            f"{each.setting}."
            for each in useless
        )
        names = ", ".join(each.defence for each in useless)
        remedies.append(
            Remedy(f"Do not rely on: {names}", f"Measured on this model, no setting halved what comes back. {measured}")
        )
    return remedies, set(families)


def _from_the_law(subject: Subject, measured: set[str]) -> Iterable[Remedy]:
    """Sizes at which the equations no longer suffice; only where the attack's equation is the law's."""
    forecast, result = subject.forecast, subject.result
    if forecast is None or (result is not None and not ATTACKS[result.method].reads_head_only):
        return
    if forecast.num_parameters < forecast.smallest_parameters:
        # With no sample determined, more of them are not what protects.
        largest = forecast.largest_samples
        more_samples = f", or the training set more than {largest:,} samples" if largest else ""
        yield Remedy(
            "Keep these sizes",
            f"The samples stay undetermined as long as the head has fewer than {forecast.smallest_parameters:,} "
            f"weights{more_samples}. Publishing more layers, "
            "intermediate checkpoints or the initial weights gives an attacker more equations than were counted here.",
        )
        return
    of_each = ", each counted for itself" if forecast.binding == PER_SAMPLE else ""
    if "coordinates" not in measured:
        yield Remedy(
            "Release fewer parameters of the head",
            f"Below {forecast.smallest_parameters:,} of its {forecast.num_parameters:,} weights there are no longer "
            f"more equations than unknowns for {forecast.num_samples:,} samples{of_each}. This follows from the law; "
            "attacks that read other layers, or know more, are not stopped by it.",
        )
    if "samples" not in measured and forecast.largest_samples > 0:
        yield Remedy(
            "Train on more samples",
            f"From {forecast.largest_samples + 1:,} samples on, a head of this size no longer determines them; now "
            f"there are {forecast.num_samples:,}. This follows from the law, which counts numbers and knows nothing "
            "of samples that resemble each other.",
        )


def _against_unmixing(subject: Subject) -> Iterable[Remedy]:
    """What takes away a premise of an unmixing attack that got samples: start, one step size, zeros if it used them."""
    result, found = subject.result, subject.findings
    if result is None or result.method != Unmix.name or not (found.certified or found.recovered):
        return
    by_zeros = ("batch-norm", "more-samples-per-neuron") if "zero_shares" in result.evidence else ()
    for name in ("keep-first-layer", "adaptive-optimiser", *by_zeros):
        yield _worded(name)


def _always(subject: Subject, measured: set[str]) -> Iterable[Remedy]:
    """What holds for any model: known initial weights help the attack, and only differential privacy has a proof."""
    result, found = subject.result, subject.findings
    unmixed = any(True for _ in _against_unmixing(subject))  # which says more of the initial weights
    if result is not None and not unmixed and "known" in (result.knowledge.initial_head, result.knowledge.initial_body):
        yield _worded("keep-initial-weights")
    if "dp-sgd" not in measured:
        yield _worded("dp-sgd")
    if subject.judgement.outcome in (Outcome.NOT_RECOVERED, Outcome.INCONCLUSIVE) and found.enough_equations:
        yield Remedy(
            "Attack again before you publish",
            f"Nothing came back here, though the equations suffice. {_next_steps(subject)}",
        )


def _worded(name: str) -> Remedy:
    """A remedy of remedies.yaml."""
    return Remedy(**_texts()[name])


@cache
def _texts() -> dict[str, dict[str, str]]:
    return read_yaml(Path(__file__).parent / "templates" / "remedies.yaml")


def _next_steps(subject: Subject) -> str:
    """What to change before the next attack: what the diagnosis advises; else more budget, where that was spent."""
    advice = [each.advice for each in subject.diagnosis if each.advice]
    result = subject.result
    replayed = result is not None and result.method == Replay.name
    if not replayed and any(each.value == ADAPTIVE for each in subject.diagnosis):
        advice.append("Do not take a failed attack for safety: these attacks assume training by SGD.")
    elif result is not None and result.stop in (Stop.PASS_LIMIT, Stop.TIME_LIMIT):
        advice.append("Give it more budget (--budget-passes, --budget-seconds): it was spent.")
    others = ", ".join(ATTACKS)
    return " ".join(advice or [f"Give it what an attacker may know (--know), and try --method NAME ({others})."])


def _by_what_is_left(outcomes: Sequence[defences.Outcome]) -> Callable[[defences.Outcome], tuple[float, float, float]]:
    """Sorts by what is still recovered, then by cost."""
    cost = cost_measured(outcomes)

    def key(outcome: defences.Outcome) -> tuple[float, float, float]:
        value = getattr(outcome.utility, cost[0]) if cost else None
        return _left(outcome), float("inf") if value is None else value, outcome.strength

    return key


def _left(outcome: defences.Outcome) -> float:
    share = share_recovered(outcome)
    return 1.0 if share is None else share


def _numbers(outcome: defences.Outcome, plain: defences.Outcome) -> str:
    """What was measured of a defence beside the model as it is."""
    text = (
        f"Measured on this model: {outcome.recovered:,} of {outcome.num_samples:,} samples came back with an error "
        f"below {RECOVERED_BELOW:g}, instead of {plain.recovered:,} of {plain.num_samples:,}."
    )
    cost = []
    for name, words in COSTS[:2]:
        now, then = getattr(outcome.utility, name), getattr(plain.utility, name)
        if now is not None and then is not None:
            cost.append(f"{words} {now:.2g} instead of {then:.2g}")
    if outcome.utility.held_out_error is None and outcome.utility.output_change is not None:
        small = "less than " if outcome.utility.output_change < _HARDLY else ""
        cost.append(f"outputs change by {small}{percent(outcome.utility.output_change)}")
    if cost:
        text += f" The cost: {', '.join(cost)}."
    if outcome.recovered == 0:
        text += " That nothing came back within this attack's budget is no proof that nothing can."
    return f"{text} Note: {outcome.note}." if outcome.note else text
