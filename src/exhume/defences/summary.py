"""Outcomes as text: an aligned table, and for every family a sentence that says where recovery ends."""

from __future__ import annotations

from collections.abc import Sequence

from exhume.defences.measuring import NONE, Outcome
from exhume.results.certificate import FAILED
from exhume.support import text

_IN_WORDS = {"dp-sgd": "DP-SGD", "samples": "More samples", "coordinates": "Fewer coordinates"}
_COLUMNS = ("defence", "setting", "recovered", "error", "predicted", "verdict", "train", "held out", "outputs", "note")
_LEFT = {"defence", "setting", "verdict", "note"}


def cells(outcome: Outcome) -> tuple[str, ...]:
    """The row of an outcome: defence, setting, recovered, errors, verdict, utility, and its note or reason."""
    utility = outcome.utility
    recovered = "-" if outcome.recovered is None else f"{outcome.recovered} of {outcome.num_samples}"
    note = "; ".join(part for part in (outcome.note, f"not run: {outcome.reason}" if outcome.reason else "") if part)
    return (
        outcome.defence,
        outcome.setting,
        recovered,
        _number(outcome.error),
        _number(outcome.predicted_error),
        outcome.verdict or "-",
        _number(utility.training_error),
        _number(utility.held_out_error),
        _number(utility.output_change),
        note,
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """An aligned table for a terminal.

    "error" is that of the recovered samples, "predicted" what the certificate expects; "train" and "held out" are
    errors of the model, "outputs" their relative change.
    """
    return text.table(_COLUMNS, (cells(outcome) for outcome in outcomes), left=_LEFT)


def where_recovery_ends(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """A sentence on the undefended model ("none"), and one for every family: where recovery ends, and at what cost.

    Recovery ends at the weakest setting from which on no sample is recovered.
    """
    plain = next((each for each in outcomes if each.defence == NONE), None)
    names = dict.fromkeys(each.defence for each in outcomes if each.defence != NONE)
    families = {name: [each for each in outcomes if each.defence == name] for name in names}
    sentences = {} if plain is None else {NONE: _undefended(plain)}
    return sentences | {name: _sentence(family, plain) for name, family in families.items()}


def _undefended(plain: Outcome) -> str:
    if plain.verdict is None:
        return f"Undefended: not measured ({plain.reason})."
    if plain.recovered is None:
        return "Undefended: no sample is certified, so there is nothing to compare altered copies with."
    recovered = f"Undefended: {plain.recovered} of {plain.num_samples} samples recovered"
    if plain.verdict != FAILED:
        return f"{recovered}."
    return f"{recovered}, none certified. A larger budget may recover more, also from the altered copies."


def _sentence(family: list[Outcome], plain: Outcome | None) -> str:
    name = _IN_WORDS.get(family[0].defence, family[0].defence.capitalize())
    measured = sorted((each for each in family if each.recovered is not None), key=lambda each: each.strength)
    if not measured:
        reasons = dict.fromkeys(each.reason for each in family if each.reason)
        return f"{name}: not measured ({'; '.join(reasons) or 'nothing to compare with'})."
    if plain is not None and plain.recovered == 0:
        return f"{name}: no sample is recovered from the undefended model, so there is nothing to end."
    ends = next(
        (each for number, each in enumerate(measured) if not any(later.recovered for later in measured[number:])), None
    )
    if ends is not None:
        return f"{name}: recovery ends at {ends.setting}{_cost(ends, plain)}.{_for_good(ends)}"
    strongest, least = measured[-1], min(measured, key=_share)
    if _share(least) == 1:
        return f"{name}: every setting up to {strongest.setting} leaves all samples recoverable."
    return (
        f"{name}: does not end recovery; the fewest samples are recovered at {least.setting}, "
        f"{least.recovered} of {least.num_samples}{_cost(least, plain)}."
    )


def _for_good(outcome: Outcome) -> str:
    """Whether a better attack could recover more, by the count of equations and unknowns."""
    if outcome.equations is None or outcome.unknowns is None:
        return ""
    if outcome.equations <= outcome.unknowns:
        return " There the weights are fewer than the unknowns: by themselves they do not determine the samples."
    return f" There are {outcome.equations / outcome.unknowns:.2g} weights for each unknown: a better attack may exist."


def _share(outcome: Outcome) -> float:
    return (outcome.recovered or 0) / max(outcome.num_samples or 1, 1)


def _cost(outcome: Outcome, plain: Outcome | None) -> str:
    """What the alteration costs the model, in words; empty where that is not known."""
    if plain is None:
        return ""
    parts = [
        f"{what} error {_number(before)} to {_number(after)}"
        for what, before, after in (
            ("training", plain.utility.training_error, outcome.utility.training_error),
            ("held-out", plain.utility.held_out_error, outcome.utility.held_out_error),
        )
        if before is not None and after is not None
    ]
    if not parts and outcome.utility.output_change is not None:
        parts = [f"outputs change by {100 * outcome.utility.output_change:.2g}%"]
    return f" ({', '.join(parts)})" if parts else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
