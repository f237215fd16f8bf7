"""Statistics over seeds, and the sentences that state a figure's findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from exhume.research.paper_figures.style import name_of
from exhume.results.certificate import EXACT_BELOW, RECOVERED_BELOW
from exhume.sweep.experiment import Outcome

if TYPE_CHECKING:
    from exhume.sweep.store import Record

# p / (d n) from which on exact recovers all samples in practice.
_COMFORTABLE = 2.0
# Reasons to stop before the search has ended by itself.
_LIMITS = ("step_limit", "pass_limit", "time_limit")

Key = TypeVar("Key")
Number = Callable[["Record"], float | None]
Findings = Callable[[Sequence["Record"]], str]


def done(records: Iterable[Record]) -> list[Record]:
    """The records with an outcome."""
    return [record for record in records if record.state == "done" and record.outcome is not None]


def outcome_of(record: Record) -> Outcome:
    """The outcome of a record that has one."""
    assert record.outcome is not None
    return record.outcome


def method_of(record: Record) -> str:
    """The attack's name."""
    return record.cell.attack.method


def method_name(record: Record) -> str:
    """The attack's name in legends and sentences."""
    return name_of(method_of(record))


def sizes(record: Record) -> str:
    """(d, n) of synthetic data."""
    options = record.cell.data.options
    return f"d = {options['dim']}, n = {options['samples']}"


def grouped(records: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    """Records by a key, in the order in which the keys appear."""
    groups: defaultdict[Key, list[Record]] = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return dict(groups)


def of_method(records: Iterable[Record], *methods: str) -> list[Record]:
    """The records of some attacks."""
    return [record for record in records if method_of(record) in methods]


def number(name: str) -> Number:
    """A function that returns a number of a record's outcome."""
    return lambda record: getattr(outcome_of(record), name)


num_parameters = number("num_parameters")  # p: the weights of the last layer
claimed_error = number("claimed_error")  # the error of what the attack claims
orthogonal_residual = number("orthogonal_residual")


def mean(records: Iterable[Record], name: str) -> float:
    """The mean of a number of the outcomes."""
    return fmean(getattr(outcome_of(record), name) for record in records)


def total(records: Iterable[Record], name: str) -> int:
    """The sum of a count of the outcomes."""
    return sum(getattr(outcome_of(record), name) for record in records)


def by_group(records: Iterable[Record], key: Callable[[Record], str], words: Callable[[list[Record]], str]) -> str:
    """A sentence with a clause for each group of done records: the name of the group, then `words` of its records."""
    return "; ".join(f"{name}: {words(members)}" for name, members in grouped(done(records), key).items()) + "."


def series(records: Iterable[Record], x: Number, y: Number) -> pd.DataFrame:
    """One line of a plot: for each x, the index, statistics of y over the done records; only finite y count.

    Columns are mean, std (of the sample; 0 where there is one value), min, count and values, a list.
    """
    table = pd.DataFrame([(x(record), y(record)) for record in done(records)], columns=["x", "y"], dtype=float)
    values = table[np.isfinite(table["y"])].groupby("x")["y"]
    return values.agg(["mean", "std", "min", "count", ("values", list)]).fillna({"std": 0.0})


def one_a_victim(records: Iterable[Record]) -> list[Record]:
    """One done record for each victim, for numbers of the victim such as its training loss."""
    found: dict[str, Record] = {}
    for record in done(records):
        found.setdefault(outcome_of(record).target, record)
    return list(found.values())


def is_exact(record: Record) -> bool:
    """Whether the claimed error is below 1e-3."""
    return outcome_of(record).claimed_error < EXACT_BELOW


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's interval of 95 % for a share; the whole [0, 1] without trials."""
    if trials == 0:
        return 0.0, 1.0
    interval = binomtest(successes, trials).proportion_ci(method="wilson")
    return interval.low, interval.high


def widest(records: Sequence[Record]) -> list[Record]:
    """The done records with the most parameters."""
    most = max((outcome_of(record).num_parameters for record in done(records)), default=0)
    return [record for record in done(records) if outcome_of(record).num_parameters == most]


def failures(records: Sequence[Record]) -> str:
    """How many cells failed, in words; empty if none did."""
    failed = sum(record.state == "failed" for record in records)
    return f"{failed} of {len(records)} cells failed" if failed else ""


def thresholds(records: Sequence[Record]) -> str:
    """Each attack's mean errors from 2dn on and below the wall, and by how much the second-order attack is better."""
    by_method = grouped(done(records), method_of)
    parts = []
    for words, chosen, remark in (("from 2dn on", _far, _advantage), ("below dn", _below, None)):
        found = {method: series(chosen(mine), num_parameters, claimed_error) for method, mine in by_method.items()}
        errors = ", ".join(f"{name_of(method)} {_range(each)}" for method, each in found.items() if len(each))
        if errors:
            parts.append(f"{words} {errors}{remark(found) if remark else ''}")
    return f"Mean error {'; '.join(parts)}."


def _advantage(errors: Mapping[str, pd.DataFrame]) -> str:
    """By how much the error of exact is smaller than that of descent, at the least or else at the largest p."""
    if not {"exact", "descent"} <= errors.keys():
        return ""
    factors = errors["descent"]["mean"] / errors["exact"]["mean"]
    factors = factors[np.isfinite(factors)]
    if factors.empty:
        return ""
    if factors.min() > 1:
        return f" (exact at least {factors.min():.2g} times smaller at these budgets)"
    if factors.iloc[-1] > 1:
        return f" (exact {factors.iloc[-1]:.2g} times smaller at the largest p, and not everywhere)"
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

    def words(members: list[Record]) -> str:
        found = f"{total(members, 'claimed_recovered')} of {total(members, 'num_samples')} within {RECOVERED_BELOW}"
        return f"{found}, mean error {mean(members, 'claimed_error'):.2g}"

    return by_group(records, by, words)


def smallest_solved(records: Sequence[Record], x: Callable[[Record], float] | None = None) -> float | None:
    """The smallest p / (d n) of a grid from which on every run has an error below 1e-3; None if there is none.

    Args:
        x: what to group by in place of p / (d n), p being the weights that the attack had.
    """
    solved: float | None = None
    groups = grouped(done(records), x or (lambda record: round(outcome_of(record).ratio, 4)))
    for ratio, members in sorted(groups.items(), reverse=True):
        if not all(map(is_exact, members)):
            break
        solved = ratio
    return solved


def variant_findings(variant: Callable[[Record], str]) -> Findings:
    """A findings function: for each variant the p, as it was trained, from which on exact recovers every run."""

    def findings(records: Sequence[Record]) -> str:
        widest = max((_trained(record) for record in done(records)), default=0.0)
        solved, means = [], []
        for name, mine in grouped(done(records), variant).items():
            first = smallest_solved(of_method(mine, "exact"), _trained)
            solved.append(f"{name} " + ("nowhere" if first is None else f"from {first:g}dn on"))
            last = [record for record in mine if _trained(record) == widest]
            errors = ", ".join(
                f"{name_of(method)} {mean(members, 'claimed_error'):.2g}"
                for method, members in grouped(last, method_of).items()
            )
            means.append(f"{name} {errors}")
        return f"Exact is below 1e-3 in every run: {', '.join(solved)}. Mean error at {widest:g}dn: {'; '.join(means)}."

    return findings


def _trained(record: Record) -> float:
    """p / (d n) as it was trained, before any pruning."""
    return record.cell.ratio or outcome_of(record).ratio


def _range(found: pd.DataFrame) -> str:
    """The smallest and the largest mean."""
    low, high = (f"{value:.2g}" for value in (found["mean"].min(), found["mean"].max()))
    return low if low == high else f"{low} to {high}"


def span_inclusion(records: Sequence[Record]) -> str:
    """Error and residual of the true features side by side, between n and dn, and from 2dn on."""
    parts = []
    for method, mine in grouped(done(records), method_of).items():
        for words, members in (("between n and dn", _between_walls(mine)), ("from 2dn on", _far(mine))):
            residuals = series(members, num_parameters, orthogonal_residual)
            errors = series(members, num_parameters, claimed_error)
            if len(residuals):
                parts.append(f"{name_of(method)} {words}: residual {_range(residuals)}, error {_range(errors)}")
    return "; ".join(parts) + "."


def _below(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if outcome_of(record).ratio < 1]


def _between_walls(records: Sequence[Record]) -> list[Record]:
    """Those away from p = n, where the residual vanishes for a trivial reason."""
    return [each for each in _below(records) if outcome_of(each).num_parameters > 2 * outcome_of(each).num_samples]


def _far(records: Sequence[Record]) -> list[Record]:
    # Widths of networks are whole numbers, so 2dn may be a little less.
    return [record for record in records if outcome_of(record).ratio > 0.97 * _COMFORTABLE]


def findings_by(title: Callable[[Record], str], words: Callable[[Sequence[Record]], str] = thresholds) -> Findings:
    """A findings function: each title in brackets, then `words` of its records."""
    return lambda records: " ".join(f"({name}) {words(mine)}" for name, mine in grouped(records, title).items())
