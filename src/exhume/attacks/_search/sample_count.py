"""How many samples? The spectrum gives a first guess, the residual against the number of rows decides.

With more rows than samples the equation can be solved and the extra rows are idle or duplicates (the paper's E.3); with
fewer it cannot. So: solve with more rows than the spectrum shows, then drop rows one by one while the residual stays
small.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import torch

from exhume.attacks._base.count_tuning import CountTuning
from exhume.attacks._base.problem import Problem
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import SearchResult
from exhume.attacks._base.tuning import Tuning
from exhume.attacks._search.rows import drop_rows, exchange_rows, residual_rows
from exhume.attacks._search.spectral import moment_spectrum, strongest_output
from exhume.attacks._search.subsets import SubsetSearch
from exhume.attacks._search.working_equation import working_equation
from exhume.equation.span import Span, SpanPoint
from exhume.features import OneLayerFeatures
from exhume.results.stop import Stop
from exhume.solvers import levenberg_marquardt
from exhume.target.target import Target


def estimate_samples(problem: Problem, session: Session) -> SearchResult:
    """Finds samples whose number is not known.

    Returns:
        The last search's result, with the evidence {"spectrum": eigenvalues above chance, "residuals": [[rows, relative
        residual], ...]} in the order tried.
    """
    target, tuning = problem.target, problem.tuning.count
    cap = max(1, int(target.num_parameters / (tuning.least_ratio * target.features.input_dim)))
    equation = working_equation(problem, 1)
    visible = max(1, visible_directions(equation, equation.without_nuisance(), session.generator, problem.tuning))
    count = min(cap, math.ceil(tuning.first_share * visible) + tuning.first_more)
    tried: list[list[float]] = []
    while True:
        starts = 1 if count < cap else 3
        search = SubsetSearch(problem, count, max_starts=starts, steps_per_start=tuning.steps_per_start)
        found = session.run_stage(search)
        tried.append([count, math.sqrt(working_equation(problem, count).at(found.rows).loss)])
        if found.stop is Stop.CONVERGED or count >= cap or session.budget_spent():
            break
        count = min(cap, math.ceil(tuning.growth * count))
    found = replace(found, evidence={"spectrum": visible, "residuals": tried})
    return drop_idle_rows(found, session, thorough=True) if found.stop is Stop.CONVERGED else found


def drop_idle_rows(found: SearchResult, session: Session, *, thorough: bool = False) -> SearchResult:
    """Drops the row that contributes least as long as the others still solve the equation.

    Args:
        found: rows that solve it. Every attempt adds [rows, relative residual] to its evidence, as "residuals".
        thorough: try every row; otherwise only rows that may be idle, or two for one sample, are tried.
    """
    problem, count = found.problem, found.num_samples
    tuning, damping = problem.tuning.count, problem.tuning.count.damping
    rounds = replace(problem.tuning.subsets.rounds, tries=tuning.drop_tries)
    if not problem.equation_count(count).determined:  # any rows solve so few equations
        return found
    while count > 1 and not session.budget_spent():
        equation = working_equation(problem, count)
        point = equation.at(found.rows)
        twins = _has_twins(point, tuning)
        if not (thorough or twins or _may_be_idle(equation, point, tuning)):
            break
        # Only at the floor does the residual distinguish an idle row from a sample with a small coefficient.
        point = levenberg_marquardt(equation, found.rows, problem.norms, tuning.floor, damping=damping).point
        found = replace(found, rows=point.rows)
        floor = tuning.above_floor * max(point.loss, tuning.floor.tolerance**2)
        if not (thorough or twins) and float(equation.contributions(point).min()) > floor:
            break
        count -= 1
        equation = working_equation(problem, count)
        rows = _with_linear_part(equation, drop_rows(point, count), count)
        point = levenberg_marquardt(equation, rows, problem.norms, tuning.drop, damping=damping).point
        add = partial(residual_rows, equation, problem.tuning.spectral, session.generator)
        point = exchange_rows(equation, point, problem.norms, rounds, add, is_done=problem.is_found)
        fewer = replace(found, rows=point.rows, num_samples=count)
        solved = problem.is_found(point) and point.loss < floor  # as well as with more rows
        if not solved and (thorough or twins):  # rows may share samples: another search decides
            fewer = session.run_stage(
                SubsetSearch(problem, count, max_starts=tuning.drop_starts, steps_per_start=tuning.drop_steps)
            )
            point = levenberg_marquardt(equation, fewer.rows, problem.norms, tuning.floor, damping=damping).point
            fewer, solved = replace(fewer, rows=point.rows), problem.is_found(point) and point.loss < floor
        tried = [*found.evidence.get("residuals", []), [count, math.sqrt(point.loss)]]
        found = replace(found, evidence=found.evidence | {"residuals": tried})
        if not solved:
            break
        found = replace(fewer, stop=Stop.CONVERGED, evidence=found.evidence)
    return found


def _with_linear_part(equation: Span, rows: torch.Tensor, count: int) -> torch.Tensor:
    """Rows with a first linear part below them, if the equation solves for it jointly and that of more rows did not."""
    return torch.cat([rows, equation.first_linear()]) if equation.num_linear and len(rows) == count else rows


def samples_by_rank(target: Target, tuning: CountTuning) -> int | None:
    """n, if Theta (k, p) has clearly fewer directions than outputs: its rows span those of the n samples.

    With cross-entropy the rows of Theta add up to zero: k - 1 directions then show k - 1 samples or any larger number.
    """
    theta = target.displacement
    gram = target.features.coordinates.sum((theta @ theta.T).double())
    squares, directions = torch.linalg.eigh(gram)
    sizes = squares.flip(0).clamp_min(0).sqrt()
    sizes = sizes.clamp_min(tuning.rank_rounding * sizes[0])
    falls = sizes[:-1] / sizes[1:]
    if falls.numel() == 0 or float(falls.max()) < tuning.rank_gap:
        return None
    rank = int(falls.argmax()) + 1
    mean_alone = float(directions[:, 0].mean().abs()) * math.sqrt(len(theta)) > tuning.mean_cosine
    return None if rank == len(theta) - 1 and mean_alone else rank


def _may_be_idle(equation: Span, point: SpanPoint, tuning: CountTuning) -> bool:
    """Whether some row contributes little, compared with all of them and with the residual."""
    added = equation.contributions(point)
    small = float(added.min()) < tuning.times_loss * point.loss
    return small and bool((added / added.sum()).sqrt().min() < tuning.idle_share)


def _has_twins(point: SpanPoint, tuning: CountTuning) -> bool:
    """Whether two rows nearly coincide up to sign, and may be sharing one sample."""
    unit = torch.nn.functional.normalize(point.samples.double(), dim=1)
    return bool((unit @ unit.T).abs().fill_diagonal_(0).max() > tuning.twin_cosine)


def visible_directions(
    equation: Span, rows: torch.Tensor, generator: torch.Generator, tuning: Tuning, margin: float = 1.0
) -> int:
    """How many second-moment eigenvalues of rows (k, p) exceed those of their shuffled entries.

    Of Theta without its nuisance: a lower guess of n. Of a residual: whether there is anything but noise in it.

    Args:
        tuning: of the attack.
        margin: by which factor they must exceed them.
    """
    features = equation.features
    assert isinstance(features, OneLayerFeatures)
    weights = strongest_output(rows, features)
    everywhere, here = equation.coordinates.gather(weights), equation.coordinates.local_indices

    def sizes(values: torch.Tensor) -> torch.Tensor:
        return moment_spectrum(features, values, tuning.count.most_visible, generator, tuning.spectral)[0].abs()

    draws = (torch.randperm(everywhere.numel(), generator=generator) for _ in range(tuning.count.null_draws))
    shuffled = (everywhere[order[here]] for order in draws)
    chance = max(float(sizes(values).max()) for values in shuffled)
    return int((sizes(weights) > margin * chance).sum())
