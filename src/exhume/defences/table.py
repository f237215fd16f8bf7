"""Outcomes in words: an aligned table, and for every family a sentence that says where recovery ends."""

from __future__ import annotations

from collections.abc import Sequence

from exhume.defences.outcome import Outcome

_NONE = "none"
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
    """For every family a sentence: from which setting on nothing comes back, and what that costs."""
    plain = next((each for each in outcomes if each.defence == _NONE), None)
    families = dict.fromkeys(each.defence for each in outcomes if each.defence != _NONE)
    return {name: _sentence([each for each in outcomes if each.defence == name], plain) for name in families}


def _sentence(family: list[Outcome], plain: Outcome | None) -> str:
    name = family[0].defence.capitalize() if family[0].defence != "dp-sgd" else "DP-SGD"
    measured = sorted((each for each in family if each.recovered is not None), key=lambda each: each.strength)
    if not measured:
        reasons = dict.fromkeys(each.reason for each in family if each.reason)
        return f"{name}: not measured ({'; '.join(reasons) or 'nothing to compare with'})."
    if plain is not None and plain.recovered == 0:
        return f"{name}: nothing is recovered from the model as it is, so there is nothing to end."
    first_none = next(
        (each for number, each in enumerate(measured) if not any(later.recovered for later in measured[number:])), None
    )
    if first_none is not None:
        return f"{name}: recovery ends at {first_none.setting}{_cost(first_none, plain)}."
    strongest, least = measured[-1], min(measured, key=lambda each: _share(each))
    if _share(least) == 1:
        return f"{name}: every setting up to {strongest.setting} leaves all samples recoverable."
    return (
        f"{name}: does not end recovery; the fewest samples come back at {least.setting}, "
        f"{least.recovered} of {least.num_samples}{_cost(least, plain)}."
    )


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
