"""Samples found by the path equation: what they explain, how far they may be off, and the certificate."""

from __future__ import annotations

import math
from typing import Any

import torch

from exhume.attacks._base.problem import EquationCount, Problem, Proposal
from exhume.attacks._search.on_paths import LayersFound, SearchOnPaths
from exhume.equation.path import PathEquation, PathPoint
from exhume.results.certificate import APPROXIMATE, FAILED, RECOVERED_BELOW, Certificate
from exhume.results.error_bars import Limits, NormalOperator, leave_out_errors, predict_errors
from exhume.results.stop import Stop

_TOO_FEW = "Fewer equations than unknowns: many different data sets explain these weights."


def finish_layers(
    problem: Problem, search: SearchOnPaths[Any], found: LayersFound, counted: EquationCount, limits: Limits
) -> Proposal:
    """The samples with their certificate, by the equation on the path that is simulated with them."""
    confirmed = search.confirmations(found.rows, found.found) > 1
    # A path that is simulated with rows of an unfinished start shows nothing.
    tuning = problem.tuning.layers
    equation, miss = search.curved(found.rows, tuning.last_nodes) if len(found.found) else search.straight
    point = equation.at(found.rows)
    outputs = search.network.outputs(search.network.after, found.rows).detach()
    labels = outputs.sign()[:, 0] if outputs.shape[1] == 1 else outputs.argmax(1).to(found.rows)
    shown, exchanges = _bars(search, found, equation, point, counted, limits, miss), _exchanges(equation, point, labels)
    bars = [max(bar, tuning.exchanged * exchange) for bar, exchange in zip(shown, exchanges, strict=True)]
    names = equation.nodes.names
    path = "the straight line from initial to trained weights: no start was finished, and no training was simulated"
    if len(found.found):
        path = "a path of training that was simulated with the samples; its end misses the trained weights by "
        path += f"{miss:.2g} of their displacement"
    return Proposal(
        samples=found.rows,
        stop=found.stop,
        signs_determined=True,
        norms_determined=problem.norms_open or problem.target.knowledge.norm is not None,
        labels=labels,
        coefficients=equation.total_coefficients(point),
        certificate=_certificate(found.stop, equation, point, bars, counted),
        evidence={
            "parameters": list(names),
            "equations": [search.network.after[name].numel() for name in names],
            "miss": miss if len(found.found) else None,
            "starts": found.starts,
            "confirmed": int(confirmed.sum()),
        },
        notes={
            "equation": f"Equation: {equation.num_equations} numbers of {', '.join(names)}, on {path}.",
            "starts": f"Starts: {found.starts}; {int(confirmed.sum())} of {len(found.rows)} samples were found by at "
            "least two of them, from different noise. Only these have an error bar.",
        },
    )


def _bars(
    search: SearchOnPaths[Any],
    found: LayersFound,
    equation: PathEquation,
    point: PathPoint,
    counted: EquationCount,
    limits: Limits,
    miss: float,
) -> list[float]:
    """For every sample the largest of what noise, units left out, the path's miss and the distance to a start show.

    A sample that one start alone found, or whose contribution does not exceed the residual, has no error bar, but a
    guess.
    """
    confirmed = search.confirmations(found.rows, found.found) > 1
    surplus = equation.num_equations - point.rows.numel() - point.coefficients.numel()
    if not counted.determined or surplus < 1 or not bool(confirmed.any()):
        return [limits.guess] * len(point.rows)
    operator = NormalOperator(equation, point, search.norms, limits)
    noise = predict_errors(operator, surplus, 0)
    parts = leave_out_errors(equation, point, search.norms, limits)
    seen = confirmed & (equation.contributions(point) > point.loss).to(confirmed.device)
    apart = search.disagreement(found.rows, found.found)
    miss *= search.problem.tuning.layers.missed
    shown = zip(seen.tolist(), noise, parts, apart.tolist(), strict=True)
    return [max(miss, *bars) if kept else limits.guess for kept, *bars in shown]


def _exchanges(equation: PathEquation, point: PathPoint, labels: torch.Tensor) -> list[float]:
    """For every sample its error if an exchange with another one of its class, x_i -> x_i + t (x_j - x_i), made all of
    the residual; 0 without such a sample.

    Exchanged parts cost little and may be a minimum of their own, where bars of the linearised equation say nothing.
    """
    rows, found = point.rows, [0.0] * len(point.rows)
    size = math.sqrt(point.loss * equation.squared_norm)
    for one, other in torch.combinations(torch.arange(len(rows))).tolist():
        if labels[one] != labels[other]:
            continue
        along = torch.zeros_like(rows)
        along[one], along[other] = rows[other] - rows[one], rows[one] - rows[other]
        cost = math.sqrt(equation.squared_size(equation.project(point, equation.jacobian(point, along))))
        for each in (one, other):
            found[each] = max(found[each], size / max(cost, 1e-30) * float(along[each].norm() / rows[each].norm()))
    return found


def _certificate(
    stop: Stop, equation: PathEquation, point: PathPoint, bars: list[float], counted: EquationCount
) -> Certificate:
    """Approximate if starts agree on samples whose error bars are small: the path always leaves a residual."""
    residual, floor = math.sqrt(point.loss), torch.finfo(equation.dtype).eps * equation.cancellation(point)
    base = (*counted, residual, floor, None)
    if not counted.determined:
        return Certificate(*base, (), FAILED, _TOO_FEW)
    if not stop.trusted:
        return Certificate(*base, (), FAILED, stop.sentence)
    good = sum(bar < RECOVERED_BELOW for bar in bars)
    if not good:
        reason = "No sample was found by two independent starts with a small error bar."
        return Certificate(*base, tuple(bars), FAILED, reason)
    reason = f"{good} of {len(bars)} samples, found by independent starts, have an error bar below {RECOVERED_BELOW}."
    return Certificate(*base, tuple(bars), APPROXIMATE, reason)
