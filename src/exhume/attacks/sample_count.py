"""How many samples? The spectrum gives a first guess, the residual against the number of rows decides.

With more rows than samples the equation can be solved and the extra rows are idle or duplicates (the paper's E.3); with
fewer it cannot. So: solve with more rows than the spectrum shows, then drop rows one by one while the residual stays
collapsed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from exhume.attacks.search import FOUND, Outcome, Search, drop_rows
from exhume.attacks.spectral import moment_spectrum, strongest_output
from exhume.features import RowFeatureMap
from exhume.solvers import Patience, levenberg_marquardt
from exhume.span import Span

if TYPE_CHECKING:
    from exhume.attacks.base import Problem
    from exhume.attacks.exact import Monitor

_DENSE_DIM = 1024  # up to which all eigenvalues are looked at
_NULL_DRAWS = 3
_FIRST_GUESS = 4  # where the spectrum is not looked at
_GROWTH = 1.4
_LEAST_RATIO = 1.25  # equations per unknown below which no search for more rows is begun
_DROP = Patience(25, 1e-5, window=5)


def estimate_samples(problem: Problem, monitor: Monitor) -> tuple[int, Outcome, dict[str, Any]]:
    """Estimates n and returns it with the rows that solve the equation and the evidence.

    Returns:
        n, the outcome of the last search, and {"spectrum": eigenvalues above chance, "residuals": [[rows, relative
        residual], ...]} in the order tried.
    """
    target = problem.target
    cap = max(1, int(target.num_parameters / (_LEAST_RATIO * target.feature_map.input_dim)))
    visible = visible_directions(monitor.span_for(1), problem.generator)
    rows = min(cap, math.ceil(1.5 * visible) + 2)
    tried: list[list[float]] = []
    evidence: dict[str, Any] = {"spectrum": visible, "residuals": tried}
    while True:
        span = monitor.span_for(rows)
        outcome = monitor.search(span, rows, max_starts=1 if rows < cap else 3, steps_per_start=300)
        tried.append([rows, math.sqrt(span.at(outcome.rows).loss)])
        if outcome.found or rows >= cap or monitor.ended:
            break
        rows = min(cap, math.ceil(_GROWTH * rows))
    if not outcome.found:
        return rows, outcome, evidence
    return *_drop_while_solved(monitor, rows, outcome, tried, problem.generator), evidence


def _drop_while_solved(
    monitor: Monitor, rows: int, outcome: Outcome, tried: list[list[float]], generator: torch.Generator
) -> tuple[int, Outcome]:
    """Drops the least useful row as long as the rest still solves the equation."""
    while rows > 1 and not monitor.ended:
        fewer = rows - 1
        span = monitor.span_for(fewer)
        search = Search(span, fewer, spectral=True, max_starts=1, keep_going=lambda state, residual: False)
        kept = drop_rows(monitor.span_for(rows).at(outcome.rows), fewer)
        point = levenberg_marquardt(span, kept, _DROP, radius=search.radius, damping=1e-3)
        point = search.rounds(point, generator, tries=2)
        solved = Outcome(point.rows, math.sqrt(point.loss) < FOUND, False, outcome.starts, outcome.steps)
        if not solved.found:  # a fresh search has the last word: the rows may have shared samples among them
            solved = monitor.search(span, fewer, max_starts=2, steps_per_start=150)
        tried.append([fewer, math.sqrt(span.at(solved.rows).loss)])
        if not solved.found:
            break
        rows, outcome = fewer, solved
    return rows, outcome


def visible_directions(span: Span, generator: torch.Generator) -> int:
    """How many second-moment eigenvalues stand out from those of shuffled weights: a lower guess of n."""
    features = span.features
    assert isinstance(features, RowFeatureMap)
    if features.input_dim > _DENSE_DIM:
        return _FIRST_GUESS
    weights = strongest_output(span.without_nuisance())

    def sizes(values: torch.Tensor) -> torch.Tensor:
        return moment_spectrum(features, values)[0].abs()

    shuffled = (weights[torch.randperm(weights.numel(), generator=generator)] for _ in range(_NULL_DRAWS))
    chance = max(float(sizes(values).max()) for values in shuffled)
    return max(1, int((sizes(weights) > chance).sum()))
