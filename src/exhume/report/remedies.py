"""What would reduce the risk: chosen for this model from what was measured on altered copies, else from the law.

Nothing is recommended that was measured not to help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from exhume.defences import Outcome
from exhume.law import Forecast
from exhume.reconstruction import Reconstruction
from exhume.report import findings
from exhume.report.charts_of_many import UNDEFENDED, cost_measured, share_recovered
from exhume.report.content import Remedy
from exhume.report.findings import Findings
from exhume.report.subject import Subject
from exhume.report.words import percent
from exhume.scoring import RECOVERED_BELOW

# Share of what is recovered from the model as it is, down to which a defence must bring it to be recommended.
_HELPS_BELOW = 0.5
_HARDLY = 1e-5  # the smallest share that is said in figures
_WHAT = {
    "rounding": "Round the released weights",
    "noise": "Add noise to the released weights",
    "pruning": "Prune the head",
    "coordinates": "Release fewer coordinates of the head",
    "ridge": "Retrain with a ridge penalty or weight decay",
    "samples": "Train on more samples",
    "dp-sgd": "Train with differential privacy (DP-SGD)",
}
# Attacks whose equation is that of the head alone, so that the law's wall is theirs.
_READ_THE_HEAD = ("exact", "descent")


def of(subject: Subject) -> tuple[Remedy, ...]:
    """The remedies of one model, measured ones first."""
    found = findings.of(subject)
    measured, judged = _measured(subject.defences)
    return (*measured, *_from_the_law(subject, found, judged), *_always(subject, found, judged))


def _measured(outcomes: Sequence[Outcome]) -> tuple[list[Remedy], set[str]]:
    """Families by what they left to recover, the best first, then those that did not help; and which were measured."""
    plain = next((each for each in outcomes if each.defence == UNDEFENDED), None)
    before = share_recovered(plain) if plain is not None else None
    if plain is None or not before:
        return [], set()
    families: dict[str, list[Outcome]] = {}
    for each in outcomes:
        if each.defence != UNDEFENDED and share_recovered(each) is not None:
            families.setdefault(each.defence, []).append(each)
    best = {name: min(family, key=_by_what_is_left(outcomes)) for name, family in families.items()}
    ranked = sorted(best.values(), key=_by_what_is_left(outcomes))
    helping = [each for each in ranked if _left(each) <= _HELPS_BELOW * before]
    remedies = [Remedy(f"{_title(each.defence)}: {each.setting}", _numbers(each, plain)) for each in helping]
    useless = [max(families[each.defence], key=lambda one: one.strength) for each in ranked if each not in helping]
    if useless:
        told = " ".join(f"{each.defence.capitalize()}: {_came_back(each)} at {each.setting}." for each in useless)
        names = ", ".join(each.defence for each in useless)
        remedies.append(
            Remedy(f"Do not rely on: {names}", f"Measured on this model, no setting halved what comes back. {told}")
        )
    return remedies, set(families)


def _from_the_law(subject: Subject, found: Findings, judged: set[str]) -> Iterable[Remedy]:
    """Sizes at which the equations no longer suffice; only where the attack's equation is the law's."""
    forecast, result = subject.forecast, subject.result
    if forecast is None or (result is not None and result.method not in _READ_THE_HEAD):
        return
    if forecast.num_parameters < forecast.smallest_parameters:
        yield _stay_below(forecast)
        return
    if "coordinates" not in judged:
        yield Remedy(
            "Release fewer parameters of the head",
            f"Below {forecast.smallest_parameters:,} of its {forecast.num_parameters:,} weights there are no longer "
            f"more equations than unknowns for {forecast.num_samples:,} samples. This follows from the law; attacks "
            "that read other layers, or know more, are not stopped by it.",
        )
    if "samples" not in judged and forecast.largest_samples > 0:
        yield Remedy(
            "Train on more samples",
            f"From {forecast.largest_samples + 1:,} samples on, a head of this size no longer determines them; now "
            f"there are {forecast.num_samples:,}. This follows from the law, which counts numbers and knows nothing "
            "of samples that resemble each other.",
        )


def _stay_below(forecast: Forecast) -> Remedy:
    return Remedy(
        "Keep these sizes",
        f"The samples stay undetermined as long as the head has fewer than {forecast.smallest_parameters:,} weights, "
        f"or the training set more than {forecast.largest_samples:,} samples. Publishing more layers, intermediate "
        "checkpoints or the initial weights gives an attacker more equations than were counted here.",
    )


def _always(subject: Subject, found: Findings, judged: set[str]) -> Iterable[Remedy]:
    """What holds for any model: known initial weights help the attacker, and privacy in training has a proof."""
    if subject.result is not None and _initial_weights_helped(subject.result):
        yield Remedy(
            "Keep the weights before training to yourself",
            "The attack used them. Do not publish the initial checkpoint or the seed that makes it. This is of no use "
            "where they can be guessed: heads that start at zero, or from a public checkpoint. Not measured here.",
        )
    if "dp-sgd" not in judged:
        yield Remedy(
            _WHAT["dp-sgd"],
            "The only remedy here with a proof against every attack, also those not known yet; it costs accuracy, the "
            "more the fewer samples there are. Not measured here.",
        )
    if found.vouched == 0 and found.recovered == 0 and found.enough_equations:
        yield Remedy(
            "Attack longer before you publish",
            "Nothing came back here, though the equations suffice. Give the attack more time or passes, try the other "
            "methods (exhume compare), and give it what an attacker of yours may know.",
        )


def _initial_weights_helped(result: Reconstruction) -> bool:
    return result.knowledge.initial_head == "known" or result.knowledge.initial_body == "known"


def _by_what_is_left(outcomes: Sequence[Outcome]) -> Callable[[Outcome], tuple[float, float, float]]:
    """Sorts by what is still recovered, then by cost."""
    cost = cost_measured(outcomes)

    def key(outcome: Outcome) -> tuple[float, float, float]:
        value = getattr(outcome.utility, cost[0]) if cost else None
        return _left(outcome), float("inf") if value is None else value, outcome.strength

    return key


def _left(outcome: Outcome) -> float:
    share = share_recovered(outcome)
    return 1.0 if share is None else share


def _title(family: str) -> str:
    return _WHAT.get(family, family.capitalize())


def _came_back(outcome: Outcome) -> str:
    return f"{outcome.recovered:,} of {outcome.num_samples:,} samples still came back"


def _numbers(outcome: Outcome, plain: Outcome) -> str:
    """What was measured of a defence beside the model as it is."""
    text = (
        f"Measured on this model: {outcome.recovered:,} of {outcome.num_samples:,} samples came back with an error "
        f"below {RECOVERED_BELOW:g}, instead of {plain.recovered:,} of {plain.num_samples:,}."
    )
    costs = (
        ("held-out error", outcome.utility.held_out_error, plain.utility.held_out_error),
        ("training error", outcome.utility.training_error, plain.utility.training_error),
    )
    told = [
        f"{words} {now:.2g} instead of {then:.2g}" for words, now, then in costs if now is not None and then is not None
    ]
    if outcome.utility.held_out_error is None and outcome.utility.output_change is not None:
        small = "less than " if outcome.utility.output_change < _HARDLY else ""
        told.append(f"outputs change by {small}{percent(outcome.utility.output_change)}")
    if told:
        text += f" The cost: {', '.join(told)}."
    if outcome.recovered == 0:
        text += " That nothing came back within this attack's budget is no proof that nothing can."
    return f"{text} Note: {outcome.note}." if outcome.note else text
