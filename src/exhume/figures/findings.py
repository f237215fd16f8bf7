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
from exhume.scoring import RECOVERED_BELOW

if TYPE_CHECKING:
    from exhume.sweep.record import Record

# From here on the law lets everything be recovered in practice.
_COMFORTABLE = 2.0
# Why a run ended that was not over.
_LIMITS = ("step_limit", "pass_limit", "time_limit")


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
        return f" (exact at least {min(factors):.2g} times smaller at these budgets)"
    if factors[-1] > 1:
        return f" (exact {factors[-1]:.2g} times smaller at the largest p, and not everywhere)"
    return " (exact not smaller at the largest p)"


def limits(records: Sequence[Record]) -> str:
    """How many runs of each attack were ended by a limit of steps or passes; empty if none was."""
    parts = []
    for method, mine in grouped(done(records), method_of).items():
        ended = sum(outcome_of(record).stop in _LIMITS for record in mine)
        if ended:
            parts.append(f"{name_of(method)} in {ended} of {len(mine)} runs")
    return f"Ended by a limit of steps or passes: {', '.join(parts)}." if parts else ""


def recoveries(records: Sequence[Record], by: Callable[[Record], str]) -> str:
    """How many samples each group has within 0.1, with signs where the attack claims them, and their mean error."""
    parts = []
    for name, members in grouped(done(records), by).items():
        outcomes = [outcome_of(record) for record in members]
        found = sum(each.recovered if each.signs_determined else each.recovered_up_to_sign for each in outcomes)
        of = sum(each.num_samples for each in outcomes)
        error = fmean(each.claimed_error for each in outcomes)
        parts.append(f"{name}: {found} of {of} within {RECOVERED_BELOW}, mean error {error:.2g}")
    return "; ".join(parts) + "."


def smallest_solved(records: Sequence[Record], x: Callable[[Record], float] | None = None) -> float | None:
    """The smallest p / (d n) of a grid from which on every run has an error below 1e-3; None if there is none.

    Args:
        x: another ratio than that of the weights that the attack had.
    """
    solved: float | None = None
    groups = grouped(done(records), x or (lambda record: round(outcome_of(record).ratio, 4)))
    for ratio, members in sorted(groups.items(), reverse=True):
        if any(outcome_of(record).claimed_error >= RECOVERED for record in members):
            break
        solved = ratio
    return solved


def variant_findings(variant: Callable[[Record], str]) -> Callable[[Sequence[Record]], str]:
    """A findings function: for each variant the p, as it was trained, from which on exact recovers every run."""

    def findings(records: Sequence[Record]) -> str:
        widest = max((_trained(record) for record in done(records)), default=0.0)
        solved, means = [], []
        for name, mine in grouped(done(records), variant).items():
            first = smallest_solved(of_method(mine, "exact"), _trained)
            solved.append(f"{name} " + ("nowhere" if first is None else f"from {first:g}dn on"))
            last = [record for record in mine if _trained(record) == widest]
            errors = ", ".join(
                f"{name_of(method)} {fmean(outcome_of(each).claimed_error for each in members):.2g}"
                for method, members in grouped(last, method_of).items()
            )
            means.append(f"{name} {errors}")
        return f"Exact is below 1e-3 in every run: {', '.join(solved)}. Mean error at {widest:g}dn: {'; '.join(means)}."

    return findings


def _trained(record: Record) -> float:
    """p / (d n) as it was trained, before any pruning."""
    return record.cell.ratio or outcome_of(record).ratio


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
