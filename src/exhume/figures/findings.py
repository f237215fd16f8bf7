"""Sentences computed from records: what a figure found, in numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from exhume.figures.statistics import (
    RECOVERED,
    claimed_error,
    done,
    grouped,
    method_of,
    num_parameters,
    of_method,
    outcome_of,
    series,
)
from exhume.figures.style import name_of

if TYPE_CHECKING:
    from exhume.sweep.record import Record

# From here on the law lets everything be recovered in practice.
_COMFORTABLE = 2.0


def thresholds(records: Sequence[Record]) -> str:
    """Each attack's mean errors from 2dn on and below the wall, and by how much the second-order attack is better."""
    by_method = grouped(done(records), method_of)
    parts = []
    for words, members_of in (("from 2dn on", _far), ("below dn", _below)):
        means = {
            method: series(members_of(mine), num_parameters, claimed_error).mean for method, mine in by_method.items()
        }
        told = ", ".join(f"{name_of(method)} {_between(found)}" for method, found in means.items() if found)
        if told:
            parts.append(f"{words} {told}{_advantage(records) if members_of is _far else ''}")
    return f"Mean error {'; '.join(parts)}."


def _advantage(records: Sequence[Record]) -> str:
    """By how much the error of exact is smaller than that of descent, at the least from 2dn on or else at the end."""
    far = _far(done(records))
    ours, theirs = (series(of_method(far, method), num_parameters, claimed_error) for method in ("exact", "descent"))
    means = dict(zip(ours.x, ours.mean, strict=True))
    factors = [theirs_mean / means[x] for x, theirs_mean in zip(theirs.x, theirs.mean, strict=True) if means.get(x)]
    if not factors:
        return ""
    if min(factors) > 1:
        return f" (at least {min(factors):.2g} times smaller)"
    return f" ({factors[-1]:.2g} times smaller at the largest p, and not smaller everywhere)"


def recoveries(records: Sequence[Record], by: Callable[[Record], str]) -> str:
    """How many samples each group of cells recovered, with signs where the attack claims them, and their mean error."""
    parts = []
    for name, members in grouped(done(records), by).items():
        outcomes = [outcome_of(record) for record in members]
        found = sum(each.recovered if each.signs_determined else each.recovered_up_to_sign for each in outcomes)
        of = sum(each.num_samples for each in outcomes)
        parts.append(f"{name}: {found} of {of} recovered, mean error {fmean(e.claimed_error for e in outcomes):.2g}")
    return "; ".join(parts) + "."


def smallest_solved(records: Sequence[Record]) -> float | None:
    """The smallest p / (d n) of a grid from which on every run is recovered; None if there is none."""
    solved: float | None = None
    groups = grouped(done(records), lambda record: round(outcome_of(record).ratio, 4))
    for ratio, members in sorted(groups.items(), reverse=True):
        if any(outcome_of(record).claimed_error >= RECOVERED for record in members):
            break
        solved = ratio
    return solved


def variant_findings(variant: Callable[[Record], str]) -> Callable[[Sequence[Record]], str]:
    """A findings function: mean errors of each variant and attack from 2dn on, and where exact is solved."""

    def findings(records: Sequence[Record]) -> str:
        parts = []
        for name, mine in grouped(done(records), variant).items():
            means = ", ".join(
                f"{name_of(method)} {_between(series(_far(members), num_parameters, claimed_error).mean)}"
                for method, members in grouped(mine, method_of).items()
                if _far(members)
            )
            parts.append(f"{name}: {means}")
        return f"Mean error with 2dn weights or more: {'; '.join(parts)}."

    return findings


def method_name(record: Record) -> str:
    """The attack's name in sentences."""
    return name_of(method_of(record))


def _between(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"


def span_inclusion(records: Sequence[Record]) -> str:
    """Error and residual of the true features side by side, between n and dn, and from 2dn on."""
    parts = []
    for method, mine in grouped(done(records), method_of).items():
        for words, members in (("between n and dn", _between_walls(mine)), ("from 2dn on", _far(mine))):
            residuals = series(members, num_parameters, lambda record: outcome_of(record).orthogonal_residual).mean
            errors = series(members, num_parameters, claimed_error).mean
            if residuals:
                parts.append(f"{name_of(method)} {words}: residual {_between(residuals)}, error {_between(errors)}")
    return "; ".join(parts) + "."


def _below(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if outcome_of(record).ratio < 1]


def _between_walls(records: Sequence[Record]) -> list[Record]:
    """Clear of p = n, where the residual vanishes for a trivial reason."""
    return [each for each in _below(records) if outcome_of(each).num_parameters > 2 * outcome_of(each).num_samples]


def _far(records: Sequence[Record]) -> list[Record]:
    # Networks come in whole widths, so that 2dn may be a little less.
    return [record for record in records if outcome_of(record).ratio > 0.97 * _COMFORTABLE]
