"""The certificate of `replay`: equations, unknowns, rounding and error bars, from the Jacobian of the training."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from exhume.equation.norms import FreeNorm
from exhume.equation.replay import ReplayEquation, ReplayPoint
from exhume.results.certificate import (
    APPROXIMATE,
    EXACT,
    EXACT_BELOW,
    FAILED,
    RECOVERED_BELOW,
    Certificate,
    Trust,
    certify,
)
from exhume.results.error_bars import DEFAULT_LIMITS
from exhume.results.stop import Stop
from exhume.support.randomness import seed_for

# Relative residual above rounding up to which samples may be certified as approximate: a wrong sample, label or number
# of the recipe leaves more (tests/attacks/test_replay.py, `python -m benches replay`).
_TRUSTED = 1e-2
# Unknowns up to which the Jacobian is written out.
_MOST_DENSE = 1024


def certify_replay(
    equation: ReplayEquation, point: ReplayPoint, stop: Stop, precision: float
) -> tuple[Stop, Certificate]:
    """Why the attack stopped, and the certificate; samples are trusted at rounding, or close above it."""
    residual, limits = math.sqrt(point.loss), DEFAULT_LIMITS
    floor = precision * equation.cancellation(point)
    at_floor = residual <= limits.floor_factor * floor
    if residual <= _TRUSTED:
        stop = Stop.CONVERGED if at_floor else Stop.FLOOR
    elif stop is Stop.CONVERGED:
        stop = Stop.STARTS_SPENT
    unknowns = point.rows[: point.num_samples].numel() + sum(equation.fitted)
    few = equation.num_equations <= unknowns
    if few or not stop.trusted:
        reason = "Fewer equations than unknowns: many different data sets explain these weights."
        reason = reason if few else stop.sentence
        return stop, Certificate(equation.num_equations, unknowns, residual, floor, None, (), FAILED, reason)
    if unknowns > _MOST_DENSE and any(equation.fitted):
        reason = f"Beside fitted numbers of the recipe at most {_MOST_DENSE} unknowns can be certified."
        return stop, Certificate(equation.num_equations, unknowns, residual, floor, None, (), FAILED, reason)
    if unknowns > _MOST_DENSE:
        trust = Trust(stop, unknowns, FreeNorm(math.sqrt(point.rows.shape[1])), precision)
        return stop, certify(equation, point, trust, seed_for(0, "certificate of replay"))
    errors, smallest, typical, seen = _dense_bars(equation, point, unknowns)

    def verdict(word: str, reason: str) -> tuple[Stop, Certificate]:
        bars = tuple(errors.clamp_max(limits.guess).tolist())
        return stop, Certificate(seen, unknowns, residual, floor, smallest, bars, word, reason)

    if seen <= unknowns:
        return verdict(FAILED, f"Only {seen} weights depend on the samples, for {unknowns} unknowns.")
    if smallest <= limits.flat * typical:
        return verdict(FAILED, "The equations leave some directions of the samples open: the Jacobian is singular.")
    if at_floor and float(errors.max()) < EXACT_BELOW:
        return verdict(EXACT, "The simulated training ends at the trained weights, to rounding.")
    good = int((errors < RECOVERED_BELOW).sum())
    if float(errors.median()) < stop.credible_error:
        where = "at rounding, but the Jacobian is flat" if at_floor else "above rounding"
        return verdict(
            APPROXIMATE,
            f"The simulated training misses the trained weights by {residual:.1e} of their displacement, {where}; "
            f"{good} of {len(errors)} samples have an error bar below {RECOVERED_BELOW}.",
        )
    return verdict(FAILED, "What the simulated training misses drowns most samples.")


def _dense_bars(equation: ReplayEquation, point: ReplayPoint, unknowns: int) -> tuple[Tensor, float, float, int]:
    """Error bars (n,), the smallest and a typical singular value of J, and how many weights depend on the samples.

    The bar of a sample is the root of ||D_i||^2 + s^2 tr[(J^T J)^-1]_ii over its norm: D is the Gauss-Newton step that
    is left, and s^2 the residual's variance for each surplus equation.
    """
    at, rows = equation.linearise(point), point.rows
    wanted = [place for place in range(rows.numel()) if _is_unknown(equation, rows, place)]
    columns = torch.empty((unknowns, equation.num_equations), dtype=rows.dtype, device=rows.device)
    for number, place in enumerate(wanted):
        unit = torch.zeros_like(rows)
        unit.view(-1)[place] = 1.0
        columns[number] = equation.jvp(at, unit)
    seen = int((columns != 0).any(0).sum())
    gram, gradient = (columns @ columns.T).double(), (columns @ point.residual).double()
    values, vectors = torch.linalg.eigh(gram)
    values = values.clamp_min(torch.finfo(torch.float64).tiny)
    left = vectors @ ((vectors.T @ gradient) / values)
    variance = point.loss * equation.squared_norm / max(seen - unknowns, 1)
    squares = left.square() + variance * (vectors.square() / values).sum(1)
    count, width = point.num_samples, rows.shape[1]
    of_samples = squares[: count * width].reshape(count, width).sum(1).sqrt()
    sizes = torch.linalg.vector_norm(equation.unknowns(rows).samples.double(), dim=1)
    typical = math.sqrt(float(values.mean()))
    return of_samples / sizes, math.sqrt(float(values[0])), typical, seen


def _is_unknown(equation: ReplayEquation, rows: Tensor, place: int) -> bool:
    """Whether an entry of the rows is an unknown: of a sample, or a number that is fitted."""
    row, column = divmod(place, rows.shape[1])
    return row < equation.num_samples or (column < len(equation.fitted) and equation.fitted[column])
