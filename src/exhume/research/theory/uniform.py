"""Lemma B.1: a sum over p features deviates by about sqrt(p) at a given sample, and by about sqrt(p d) at the worst.

The supremum over all samples on the sphere exceeds the deviation at a given one by a factor sqrt(d) and not more; this
is why Theorem 1 asks for p >> dn and not p >> n. With phi~(z) = phi(z) - mu_1 z, the lemma's equations are about

    (18)  |phi~(x_1).phi(x_1) - p E[phi~ phi]|, at a given sample x_1: no supremum, and no d
    (20)  the same at x, its supremum over the sphere
    (21)  |phi~(x_1).phi(x) - phi~(x_1).phi~(x)| = |mu_1 phi~(x_1).V x|, supremum |mu_1| sqrt(d) ||V^T phi~(x_1)||
    (22)  |phi(x_1).phi~(x) - phi~(x_1).phi~(x)| = |mu_1 (V x_1).phi~(x)|, its supremum

(21) is exact. The suprema of (20) and (22) are searched by gradient ascent, from random samples and from outermost
eigenvectors of V^T V (the second-order part of (20)), which gives a lower bound. The lemma's own bounds are upper
ones, with a factor log d and a term p / d^2 that come from its net.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from exhume.activations import Activation
from exhume.research.theory.setting import Check, PowerLaw, entries, feature_kernel, feature_map, named, sphere_samples
from exhume.scoring.matching import on_sphere

Equation = Literal["18", "20", "21", "22"]
EQUATIONS: tuple[Equation, ...] = get_args(Equation)
Summands = Callable[[Tensor], tuple[Tensor, Tensor]]  # of V x, (p, samples), with their derivatives

WIDTHS, AT_DIM = (512, 1024, 2048, 4096, 8192), 16
DIMS, AT_WIDTH = (16, 32, 64, 128), 8192
_DRAWS = {"18": 16, "20": 4, "21": 8, "22": 4}  # of V; more for deviations that fluctuate more
_GIVEN = 32  # given samples for each V, for (18) and (21)
_RANDOM_STARTS = 2
_ASCENT_STEPS = 60
_TOLERANCES = {"18": 0.1, "20": 0.15, "21": 0.1, "22": 0.15}  # the searched ones are means of a few draws
_WORDS = {
    "18": "The deviation at a given sample",
    "20": "The largest deviation on the sphere, searched by ascent (a lower bound),",
    "21": "The largest deviation on the sphere, which is known exactly here,",
    "22": "The largest deviation on the sphere, searched by ascent (a lower bound),",
}


def deviation_in_width(equation: Equation, activation: str | Activation = "waves", seed: int = 0) -> Check:
    """How the deviation of an equation of Lemma B.1 grows with p, at a given d: exponent 1/2."""
    act = named(activation)
    found = {p: measure(equation, act, p, AT_DIM, seed) for p in WIDTHS}
    return _growth(equation, act, "p", found, 0.5, f"grows as p^(1/2); d = {AT_DIM}")


def deviation_in_dim(equation: Equation, activation: str | Activation = "waves", seed: int = 0) -> Check:
    """How the deviation of an equation of Lemma B.1 grows with d, at a given p: exponent 1/2, and 0 for Eq. (18)."""
    act = named(activation)
    found = {d: measure(equation, act, AT_WIDTH, d, seed) for d in DIMS}
    exponent, growth = (0.0, "does not depend on d") if equation == "18" else (0.5, "grows as d^(1/2)")
    return _growth(equation, act, "d", found, exponent, f"{growth}; p = {AT_WIDTH}")


def _growth(
    equation: Equation, activation: Activation, letter: str, found: dict[int, float], exponent: float, words: str
) -> Check:
    """The check that deviations, by the size that the letter stands for, grow with the exponent."""
    law = PowerLaw(list(found), list(found.values()), exponent=exponent, tolerance=_TOLERANCES[equation])
    return law.check(
        f"Lemma B.1, Eq. ({equation}), in {letter}, {activation.name}",
        f"{_WORDS[equation]} {words}.",
        (letter, "deviation", f"over sqrt({letter})"),
        [(size, value, value / math.sqrt(size)) for size, value in found.items()],
    )


def measure(equation: Equation, activation: Activation, num_features: int, dim: int, seed: int) -> float:
    """The deviation of an equation, root mean square over draws of V (and over given samples, where there are any)."""
    mu_1 = float(activation.hermite(1)[1])
    mean = float(feature_kernel(activation, torch.ones(1))) - mu_1**2  # E[phi~ phi]: sum of mu_l^2 but the first
    squares = []
    for draw in range(_DRAWS[equation]):
        purpose = f"uniform {num_features} {dim} {draw}"
        matrix = entries(feature_map(num_features, dim, activation, seed, purpose))  # (p, d)
        given = matrix @ sphere_samples(_GIVEN, dim, seed, purpose).T  # V x_1, (p, given)
        phi = activation.value(given)
        rest = phi - mu_1 * given  # phi~
        if equation == "18":
            squares.append((rest * phi).sum(0).sub(num_features * mean).square().mean())
        elif equation == "21":
            squares.append((mu_1**2 * dim * (matrix.T @ rest).square().sum(0)).mean())
        else:
            summands = _of_itself(activation, mu_1, mean) if equation == "20" else _of_given(activation, mu_1, given)
            squares.append(torch.tensor(supremum(summands, matrix, _starts(matrix, seed, purpose)) ** 2))
    return math.sqrt(float(torch.stack(squares).mean()))


def _of_itself(activation: Activation, mu_1: float, mean: float) -> Summands:
    """phi~(z) phi(z) - E[phi~ phi], and its derivative."""

    def summands(z: Tensor) -> tuple[Tensor, Tensor]:
        value, slope = activation.value(z), activation.slope(z)
        rest = value - mu_1 * z
        return rest * value - mean, (slope - mu_1) * value + rest * slope

    return summands


def _of_given(activation: Activation, mu_1: float, given: Tensor) -> Summands:
    """mu_1 (V x_1) phi~(z) for the first of the given samples, and its derivative."""
    weights = mu_1 * given[:, :1]  # (p, 1)

    def summands(z: Tensor) -> tuple[Tensor, Tensor]:
        return weights * (activation.value(z) - mu_1 * z), weights * (activation.slope(z) - mu_1)

    return summands


def _starts(matrix: Tensor, seed: int, purpose: str) -> Tensor:
    """Random samples, and the eigenvectors of V^T V of smallest and largest eigenvalue, (starts, d)."""
    drawn = sphere_samples(_RANDOM_STARTS, matrix.shape[1], seed, f"{purpose} starts")
    vectors = torch.linalg.eigh(matrix.T @ matrix).eigenvectors[:, [0, -1]].T
    return torch.cat((drawn, vectors * math.sqrt(matrix.shape[1])))


def supremum(summands: Summands, matrix: Tensor, starts: Tensor) -> float:
    """The largest |sum_k f_k(v_k . x)| over ||x|| = sqrt(d) that ascent reaches: a lower bound.

    Every start goes up and down, all in one batch: L-BFGS on the sum of their objectives, in which none depends on
    another. The norm of x is divided out.
    """
    size = math.sqrt(matrix.shape[1])
    signs = torch.tensor([1.0, -1.0], dtype=matrix.dtype).repeat_interleave(len(starts))  # (2 starts,)

    def downhill(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        x = torch.from_numpy(flat).reshape(len(signs), -1)
        lengths = x.norm(dim=1, keepdim=True)
        units = x / lengths
        values, slopes = summands(size * (matrix @ units.T))  # (p, 2 starts)
        gradients = signs[:, None] * (slopes.T @ matrix) * (size / lengths)
        gradients = gradients - (gradients * units).sum(1, keepdim=True) * units
        return -float(signs @ values.sum(0)), -gradients.reshape(-1).numpy()

    options = {"maxiter": _ASCENT_STEPS, "maxcor": 20}
    ended = minimize(downhill, starts.repeat(2, 1).reshape(-1).numpy(), method="L-BFGS-B", jac=True, options=options)
    samples = on_sphere(torch.from_numpy(ended.x).reshape(len(signs), -1))
    return float((signs * summands(matrix @ samples.T)[0].sum(0)).max())
