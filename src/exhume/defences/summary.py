"""Outcomes in words: an aligned table, and for every family a sentence that says where recovery ends."""

from __future__ import annotations

from collections.abc import Sequence

from exhume.certificate import FAILED
from exhume.defences.outcome import Outcome

_NONE = "none"
_IN_WORDS = {"dp-sgd": "DP-SGD", "samples": "More samples", "coordinates": "Fewer coordinates"}
_COLUMNS = ("defence", "setting", "recovered", "error", "predicted", "verdict", "train", "held out", "outputs", "note")
_RIGHT = {"recovered", "error", "predicted", "train", "held out", "outputs"}


def cells(outcome: Outcome) -> tuple[str, ...]:
    """The row of an outcome: defence, setting, recovered, errors, verdict, utility, and its note or reason."""
    utility = outcome.utility
    recovered = "-" if outcome.recovered is None else f"{outcome.recovered} of {outcome.num_samples}"
    note = "; ".join(text for text in (outcome.note, f"not run: {outcome.reason}" if outcome.reason else "") if text)
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
    rows = [_COLUMNS, *(cells(outcome) for outcome in outcomes)]
    widths = [max(len(row[number]) for row in rows) for number in range(len(_COLUMNS))]
    lines = []
    for row in rows:
        parts = (
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
        )
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def where_recovery_ends(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """For the model as it is ("none") and every family a sentence: where nothing comes back any more, at what cost."""
    plain = next((each for each in outcomes if each.defence == _NONE), None)
    names = dict.fromkeys(each.defence for each in outcomes if each.defence != _NONE)
    families = {name: [each for each in outcomes if each.defence == name] for name in names}
    sentences = {} if plain is None else {_NONE: _as_it_is(plain)}
    return sentences | {name: _sentence(family, plain) for name, family in families.items()}


def _as_it_is(plain: Outcome) -> str:
    if plain.verdict is None:
        return f"As it is: not measured ({plain.reason})."
    vouched = plain.verdict != FAILED
    more = "" if vouched else "; the attack vouches for none of them, and a larger budget may find more, here and below"
    if plain.recovered is None:
        return "As it is: the attack vouches for nothing, so there is nothing to compare altered copies with."
    return f"As it is: {plain.recovered} of {plain.num_samples} samples come back{more}."


def _sentence(family: list[Outcome], plain: Outcome | None) -> str:
    name = _IN_WORDS.get(family[0].defence, family[0].defence.capitalize())
    measured = sorted((each for each in family if each.recovered is not None), key=lambda each: each.strength)
    if not measured:
        reasons = dict.fromkeys(each.reason for each in family if each.reason)
        return f"{name}: not measured ({'; '.join(reasons) or 'nothing to compare with'})."
    if plain is not None and plain.recovered == 0:
        return f"{name}: nothing comes back from the model as it is, so there is nothing to end."
    ends = next(
        (each for number, each in enumerate(measured) if not any(later.recovered for later in measured[number:])), None
    )
    if ends is not None:
        return f"{name}: recovery ends at {ends.setting}{_cost(ends, plain)}.{_for_good(ends)}"
    strongest, least = measured[-1], min(measured, key=_share)
    if _share(least) == 1:
        return f"{name}: every setting up to {strongest.setting} leaves all samples recoverable."
    return (
        f"{name}: does not end recovery; the fewest samples come back at {least.setting}, "
        f"{least.recovered} of {least.num_samples}{_cost(least, plain)}."
    )


def _for_good(outcome: Outcome) -> str:
    """Whether a better attack could change it, as far as counting tells."""
    if outcome.equations is None or outcome.unknowns is None:
        return ""
    if outcome.equations <= outcome.unknowns:
        return " There the weights are fewer than the unknowns: by themselves they do not determine the samples."
    return f" There are {outcome.equations / outcome.unknowns:.2g} weights for each unknown: a better attack may exist."


def _share(outcome: Outcome) -> float:
    return (outcome.recovered or 0) / max(outcome.num_samples or 1, 1)


def _cost(outcome: Outcome, plain: Outcome | None) -> str:
    """What the model loses under it, in words; nothing where it is not known."""
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
