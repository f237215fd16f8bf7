"""Exit codes of an audit: 0 nothing to stop for, 1 a threshold was reached, 2 bad input, 3 inconclusive."""

from __future__ import annotations

from collections.abc import Iterable

from exhume.scoring.outcome import Outcome

PASSED, REACHED, BAD_INPUT, INCONCLUSIVE = 0, 1, 2, 3
# Of several models the first of these that occurs.
_WORST_FIRST = (BAD_INPUT, REACHED, INCONCLUSIVE, PASSED)
# By outcome: without a threshold; measured and not reached; not measurable. A reached threshold is always 1.
_CODES = {
    Outcome.RECOVERED: (PASSED, PASSED, INCONCLUSIVE),
    Outcome.NOT_RECOVERED: (INCONCLUSIVE, INCONCLUSIVE, INCONCLUSIVE),
    Outcome.INCONCLUSIVE: (INCONCLUSIVE, INCONCLUSIVE, INCONCLUSIVE),
    Outcome.NOT_RECOVERABLE: (PASSED, PASSED, PASSED),
}


def exit_code(outcome: Outcome, reached: Iterable[bool | None], *, allow_inconclusive: bool = False) -> int:
    """The exit code of one audit.

    Args:
        outcome: of the audit.
        reached: for every threshold whether it was reached; None if it could not be measured.
        allow_inconclusive: 0 instead of 3.

    Examples:
        >>> from exhume.auditing.exit_code import exit_code
        >>> from exhume.scoring.outcome import Outcome
        >>> exit_code(Outcome.RECOVERED, [True]), exit_code(Outcome.INCONCLUSIVE, [False])
        (1, 3)
    """
    states = list(reached)
    if any(states):
        return REACHED
    without, not_reached, not_measured = _CODES[outcome]
    code = not_measured if None in states else not_reached if states else without
    return PASSED if allow_inconclusive and code == INCONCLUSIVE else code


def worst(codes: Iterable[int]) -> int:
    """The exit code of several audits: 2 before 1 before 3 before 0."""
    return min(codes, key=_WORST_FIRST.index, default=PASSED)
