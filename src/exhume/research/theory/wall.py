"""The wall p = dn: directions of the samples that the span equation leaves undetermined, and its other solutions.

Theorem 1 assumes that the whole span of the features is known. Each sample is then determined by itself, by p - n
equations for its d - 1 directions on the sphere: from p = n + d - 1 on, far below the p >> dn that the theorem asks.
An adversary has one vector of the span, theta = sum_i a_i phi(x_i), and p equations for dn unknowns (n(d - 1)
directions and n coefficients): that is where the wall is.
"""

from __future__ import annotations

import math
from statistics import median_high

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import least_squares
from torch import Tensor

from exhume.activations import Activation
from exhume.features import RandomFeatureMap
from exhume.research.theory.setting import Check, Row, entries, feature_map, named, sphere_samples
from exhume.research.theory.span_recovery import error, sample_jacobians
from exhume.scoring.metrics import orthogonal_residual
from exhume.support.randomness import generator_for

_DIM, _SAMPLES = 10, 6  # dn = 60, n + d - 1 = 15
_WIDTHS = (3, 10, 14, 15, 30, 59, 60, 61, 120, 600)
_RANK = 1e-10  # singular values below this share of the largest are zero
# Other solutions: so few unknowns that least squares from random samples sometimes finds the true ones.
_SEARCH_DIM, _SEARCH_SAMPLES = 6, 4
_SEARCH_RATIOS = (0.125, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
_ENOUGH = 0.25  # share of starts that must be solutions below the wall
_SOLVED = 1e-10  # relative residual of theta
# Limits of one solve: steps and gradients are made small to rounding; a start that gains little has found no solution.
_EVALUATIONS, _ROUNDING, _LITTLE_GAIN = 100, 1e-15, 1e-4
_SAME, _ELSEWHERE = 1e-6, 1e-2  # errors rho of the true samples, and of other ones


def coefficients(num_samples: int, seed: int, purpose: str) -> Tensor:
    """a_i of either sign and of size 1/2 to 3/2."""
    drawn = torch.rand(2, num_samples, generator=generator_for(seed, f"theory a {purpose}"), dtype=torch.float64)
    return torch.where(drawn[0] < 0.5, -1.0, 1.0) * (0.5 + drawn[1])


def _rank(jacobian: Tensor, scale: float) -> tuple[int, float]:
    """The rank, and the smallest singular value relative to the scale."""
    values = torch.linalg.svdvals(jacobian)
    missing = jacobian.shape[1] - len(values)
    return int((values > _RANK * scale).sum()), 0.0 if missing else float(values[-1]) / scale


def open_directions(activation: str | Activation = "waves", seed: int = 0) -> Check:
    """Directions in which samples may move without leaving the equation: max(0, dn - p), in all, if theta is known.

    Of all n(d - 1); at most those. With the whole span known, max(0, n + d - 1 - p) for every sample. By the rank of
    the Jacobian at the truth, coefficients projected out; with p > dn it is full, and the truth isolated.
    """
    act, d, n = named(activation), _DIM, _SAMPLES
    inputs = sphere_samples(n, d, seed, "wall")
    weights = coefficients(n, seed, "wall")
    rows: list[Row] = []
    right = True
    for p in _WIDTHS:
        jacobians = sample_jacobians(feature_map(p, d, act, seed, "wall"), inputs)
        scale = (p / d) ** 0.5  # of the singular values of V
        rank, smallest = _rank(torch.cat([a * part for a, part in zip(weights, jacobians, strict=True)], 1), scale)
        of_theta, of_span = n * (d - 1) - rank, sum(d - 1 - _rank(part, scale)[0] for part in jacobians)
        expected = min(n * (d - 1), max(0, d * n - p)), n * min(d - 1, max(0, n + d - 1 - p))
        right &= (of_theta, of_span) == expected
        rows.append((p, p / (d * n), of_theta, expected[0], smallest, of_span, expected[1]))
    return Check(
        f"open directions, {act.name}",
        f"theta leaves dn - p directions of the samples open and none from p = dn = {d * n} on; the whole span none "
        f"from p = n + d - 1 = {n + d - 1} on. d = {d}, n = {n}.",
        ("p", "p/dn", "open, theta", "counted", "sigma_min/sqrt(p/d)", "open, span", "counted"),
        tuple(rows),
        passed=right,
        tolerance=_RANK,
    )


def other_solutions(
    activation: str | Activation = "waves", seed: int = 0, num_problems: int = 2, num_starts: int = 32
) -> Check:
    """Random samples are fitted to theta: below p = dn all solutions of the equation are wrong, beyond it none is.

    Least squares from many starts on several problems; beyond the wall most starts end in a local minimum, which is no
    solution. rho and r are medians over the solutions. Passes if below dn at least a quarter of the starts are
    solutions and none of them the truth, and if beyond dn all solutions are the truth, with some at every p >= 2dn.
    At p = dn itself solutions are isolated but need not be unique: nothing is asked there.
    """
    act, d, n = named(activation), _SEARCH_DIM, _SEARCH_SAMPLES
    starts = num_problems * num_starts
    rows: list[Row] = []
    right = True
    for ratio in _SEARCH_RATIOS:
        p = round(ratio * d * n)
        errors, residuals = _solutions(act, p, seed, num_problems, num_starts)
        true = sum(value < _SAME for value in errors)
        wrong = sum(value > _ELSEWHERE for value in errors)
        if ratio < 1:
            right &= len(errors) >= _ENOUGH * starts and wrong == len(errors)
        elif ratio > 1:
            right &= true == len(errors) and (ratio < 2 or true > 0)
        middle = (None, None) if not errors else (median_high(errors), median_high(residuals))
        rows.append((p, p / (d * n), starts, len(errors), true, wrong, *middle))
    return Check(
        f"other solutions, {act.name}",
        f"Of samples that solve the equation for theta all are wrong below p = dn = {d * n} and none beyond; below "
        f"p = n = {n} the residual r of Eq. (167) is 0 all the same. d = {d}.",
        ("p", "p/dn", "starts", "solutions", "true", "wrong", "error rho", "r"),
        tuple(rows),
        passed=right,
        tolerance=_SAME,
    )


def _solutions(
    activation: Activation, num_features: int, seed: int, num_problems: int, num_starts: int
) -> tuple[list[float], list[float]]:
    """The errors rho and the residuals r of all solutions found."""
    d, n = _SEARCH_DIM, _SEARCH_SAMPLES
    errors, residuals = [], []
    for problem in range(num_problems):
        purpose = f"search {num_features} {problem}"
        inputs = sphere_samples(n, d, seed, purpose)
        features = feature_map(num_features, d, activation, seed, purpose)
        truth = features.forward(inputs)
        theta = coefficients(n, seed, purpose) @ truth
        starts = sphere_samples(num_starts * n, d, seed, f"{purpose} starts").reshape(num_starts, n, d)
        for rows, left in (fit_samples(features, theta, start) for start in starts):
            if left < _SOLVED:
                errors.append(error(inputs, rows))
                residuals.append(orthogonal_residual(truth, features.forward(rows)))
    return errors, residuals


def fit_samples(features: RandomFeatureMap, theta: Tensor, start: Tensor) -> tuple[Tensor, float]:
    """Solves min_{X, a} ||theta - sum_i a_i phi(x_i)||^2, ||x_i|| = sqrt(d), from one start, to a local minimum.

    The norms are divided out: the unknowns are y_i of any norm, with x_i = sqrt(d) y_i / ||y_i||.

    Args:
        features: phi.
        theta: (p,).
        start: samples to begin with, (n, d); the coefficients begin at the best ones.

    Returns:
        The samples (n, d), and the relative residual ||theta - ...|| / ||theta||.
    """
    (n, d), matrix, radius = start.shape, entries(features), math.sqrt(start.shape[1])
    coefficients_at_start = torch.linalg.lstsq(features.forward(start).T, theta, driver="gelsd").solution

    def split(unknowns: NDArray[np.float64]) -> tuple[Tensor, Tensor, Tensor]:
        both = torch.from_numpy(unknowns)
        rows = both[: n * d].reshape(n, d)
        norms = rows.norm(dim=1, keepdim=True)
        return radius * rows / norms, norms, both[n * d :]

    def residual(unknowns: NDArray[np.float64]) -> NDArray[np.float64]:
        samples, _, a = split(unknowns)
        return (a @ features.activation.value(samples @ matrix.T) - theta).numpy()

    def jacobian(unknowns: NDArray[np.float64]) -> NDArray[np.float64]:
        samples, norms, a = split(unknowns)
        z, units = samples @ matrix.T, samples / radius
        slopes = features.activation.slope(z) * a[:, None] * radius / norms  # (n, p)
        along = matrix - (units @ matrix.T)[..., None] * units[:, None, :]  # (n, p, d)
        in_samples = (slopes[..., None] * along).transpose(0, 1).flatten(1)  # (p, n d)
        return torch.cat((in_samples, features.activation.value(z).T), 1).numpy()

    unknowns = torch.cat((start.flatten(), coefficients_at_start)).numpy()
    limits = {"xtol": _ROUNDING, "gtol": _ROUNDING, "ftol": _LITTLE_GAIN, "max_nfev": _EVALUATIONS}
    found = least_squares(residual, unknowns, jacobian, method="trf", **limits)
    return split(found.x)[0], float(np.linalg.norm(found.fun)) / float(theta.norm())
