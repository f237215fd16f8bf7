"""How many samples? The spectrum gives a first guess, the residual against the number of rows decides.

With more rows than samples the equation can be solved and the extra rows are idle or duplicates (the paper's E.3); with
fewer it cannot. So: solve with more rows than the spectrum shows, then drop rows one by one while the residual stays
collapsed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from exhume.attacks.base import Problem, counted
from exhume.attacks.floor import worths
from exhume.attacks.monitor import Monitor
from exhume.attacks.search import FOUND, Outcome, Search, drop_rows
from exhume.attacks.spectral import moment_spectrum, strongest_output
from exhume.features import RowFeatureMap
from exhume.sharding import coordinates_of
from exhume.solvers import Patience, levenberg_marquardt
from exhume.span import Point, Span
from exhume.target import Target

_MOST_VISIBLE = 32  # eigenvalues that are looked at
# Singular values of Theta: what rounding leaves of a zero one, and the fall that shows the rank.
_RANK_ROUNDING, _RANK_GAP = 1e-6, 10.0
_IDLE_SHARE = 1e-3  # relative residual below which a row's worth is doubted
_NEXT_TO_THE_REST = 100.0  # times the loss that is left, below which it is doubted
# A row is idle if it is worth no more than so many times the loss at the floor, and the rest solves the equation to it.
_ABOVE_FLOOR = 10.0
_TWIN_COSINE = 0.98
_NULL_DRAWS = 3
_GROWTH = 1.4
_LEAST_RATIO = 1.25  # equations per unknown below which no search for more rows is begun
_FLOOR = Patience(8, 2e-6, window=2)
_DROP = Patience(25, 2e-6, window=5)


def estimate_samples(problem: Problem, monitor: Monitor) -> tuple[int, Outcome, dict[str, Any]]:
    """Estimates n and returns it with the rows that solve the equation and the evidence.

    Returns:
        n, the outcome of the last search, and {"spectrum": eigenvalues above chance, "residuals": [[rows, relative
        residual], ...]} in the order tried.
    """
    target = problem.target
    cap = max(1, int(target.num_parameters / (_LEAST_RATIO * target.features.input_dim)))
    span = monitor.span_for(1)
    visible = max(1, visible_directions(span, span.without_nuisance(), problem.generator))
    rows = min(cap, math.ceil(1.5 * visible) + 2)
    tried: list[list[float]] = []
    evidence: dict[str, Any] = {"spectrum": visible, "residuals": tried}
    while True:
        span = monitor.span_for(rows)
        outcome = monitor.search(span, rows, max_starts=1 if rows < cap else 3, steps_per_start=500)
        tried.append([rows, math.sqrt(span.at(outcome.rows).loss)])
        if outcome.found or rows >= cap or monitor.ended:
            break
        rows = min(cap, math.ceil(_GROWTH * rows))
    if not outcome.found:
        return rows, outcome, evidence
    return *drop_while_solved(monitor, rows, outcome, tried, thorough=True), evidence


def drop_while_solved(
    monitor: Monitor, rows: int, outcome: Outcome, tried: list[list[float]], *, thorough: bool
) -> tuple[int, Outcome]:
    """Drops the least useful row as long as the rest still solves the equation.

    Args:
        tried: gets a [rows, relative residual] for every attempt.
        thorough: try every row; otherwise only rows that look idle, or like two for one sample, are tried.
    """
    generator, free = monitor.problem.generator, monitor.problem.norms_open
    radius = None if free else monitor.problem.radius
    equations, unknowns = counted(monitor.problem.target, rows)
    if equations <= unknowns:  # anything solves so few equations, and no row can be told from another
        return rows, outcome
    while rows > 1 and not monitor.ended:
        span = monitor.span_for(rows)
        point = span.at(outcome.rows)
        twins = _has_twins(point)
        if not (thorough or twins or _is_doubtful(span, point)):
            break
        # Only at the floor does the residual tell an idle row from a sample with a small coefficient.
        point = levenberg_marquardt(span, outcome.rows, _FLOOR, radius=radius, damping=1e-3)
        outcome = replace(outcome, rows=point.rows)
        floor = _ABOVE_FLOOR * max(point.loss, _FLOOR.tolerance**2)
        if not (thorough or twins) and float(worths(point).min()) > floor * span.squared_norm:
            break
        fewer = rows - 1
        span = monitor.span_for(fewer)
        search = Search(
            span,
            fewer,
            spectral=True,
            radius=monitor.problem.radius,
            free_norms=free,
            max_starts=1,
            keep_going=lambda state: False,
        )
        point = levenberg_marquardt(span, drop_rows(point, fewer), _DROP, radius=radius, damping=1e-3)
        point = search.rounds(point, generator, tries=2, free=free)
        solved = Outcome(point.rows, _solves(point.loss, floor), False, outcome.starts, outcome.steps)
        if not solved.found and (thorough or twins):  # rows may share samples among them: a fresh search decides
            solved = monitor.search(span, fewer, max_starts=2, steps_per_start=300)
            loss = span.at(solved.rows).loss
            solved = replace(solved, found=_solves(loss, floor))
        tried.append([fewer, math.sqrt(span.at(solved.rows).loss)])
        if not solved.found:
            break
        rows, outcome = fewer, solved
    return rows, outcome


def _solves(loss: float, floor: float) -> bool:
    """Whether rows solve the equation as well as more of them did."""
    return math.sqrt(loss) < FOUND and loss < floor


def samples_by_rank(target: Target) -> int | None:
    """n, if Theta (k, p) has clearly fewer directions than outputs: its rows span those of the n samples."""
    theta = target.displacement
    gram = coordinates_of(target.features).sum((theta @ theta.T).double())
    sizes = torch.linalg.eigvalsh(gram).flip(0).clamp_min(0).sqrt()
    sizes = sizes.clamp_min(_RANK_ROUNDING * sizes[0])
    falls = sizes[:-1] / sizes[1:]
    if falls.numel() == 0 or float(falls.max()) < _RANK_GAP:
        return None
    return int(falls.argmax()) + 1


def _is_doubtful(span: Span, point: Point) -> bool:
    """Whether some row is worth so little, also next to what is left, that it may be idle."""
    worth = worths(point)
    beside_the_rest = float(worth.min()) < _NEXT_TO_THE_REST * point.loss * span.squared_norm
    return beside_the_rest and bool((worth / worth.sum()).sqrt().min() < _IDLE_SHARE)


def _has_twins(point: Point) -> bool:
    """Whether two rows nearly coincide up to sign, and may be sharing one sample."""
    unit = torch.nn.functional.normalize(point.samples.double(), dim=1)
    return bool((unit @ unit.T).abs().fill_diagonal_(0).max() > _TWIN_COSINE)


def visible_directions(span: Span, rows: torch.Tensor, generator: torch.Generator, margin: float = 1.0) -> int:
    """How many second-moment eigenvalues of rows (k, p) stand out from those of their shuffled entries.

    Of Theta without its nuisance: a lower guess of n. Of a residual: whether there is anything but noise in it.

    Args:
        margin: by how much they must stand out.
    """
    features = span.features
    assert isinstance(features, RowFeatureMap)
    weights = strongest_output(rows, features)
    everywhere, here = span.coordinates.gather(weights), span.coordinates.held

    def sizes(values: torch.Tensor) -> torch.Tensor:
        return moment_spectrum(features, values, _MOST_VISIBLE, generator)[0].abs()

    draws = (torch.randperm(everywhere.numel(), generator=generator) for _ in range(_NULL_DRAWS))
    shuffled = (everywhere[order[here]] for order in draws)
    chance = max(float(sizes(values).max()) for values in shuffled)
    return int((sizes(weights) > margin * chance).sum())
