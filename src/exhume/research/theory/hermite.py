"""Hermite coefficients of `exhume.activations` against independent references, and Assumption 2 on them.

The references share no code with the quadrature under test: closed forms where there are any, else the trapezoidal
rule, whose error falls exponentially for functions that are analytic around the real axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special

from exhume.activations import Activation, Parity
from exhume.errors import InputError
from exhume.research.theory.setting import FREQUENCIES, WEIGHTS, Check, Row, named

Coefficients = NDArray[np.float64]

NAMES = ("relu", "abs", "relu+tanh", "tanh", "erf", "gelu", "softplus", "sigmoid", "waves")
_ORDER = 24
_TOLERANCE = 1e-12
_CONDITIONS = {
    "non_linear": "non-linear",
    "lipschitz": "Lipschitz",
    "lipschitz_slope": "Lipschitz slope",
    "mu_0_and_mu_2_vanish": "mu_0 = mu_2 = 0",
    "mu_1_nonzero": "mu_1 not 0",
    "mixed_parity_above_2": "both parities above 2",
}
_ZERO = 1e-9  # as in exhume.activations; the coefficients that decide exceed 1e-3


def _factorials(order: int) -> Coefficients:
    """sqrt(l!) for l = 0 .. order."""
    return np.exp(special.gammaln(np.arange(order + 1) + 1.0) / 2.0)


def _relu(order: int) -> Coefficients:
    """mu_l = (-1)^(l/2 + 1) (l - 3)!! / sqrt(2 pi l!) for even l >= 2; none but mu_1 = 1/2 is odd."""
    mu = np.zeros(order + 1)
    mu[:2] = 1.0 / math.sqrt(2.0 * math.pi), 0.5
    for degree in range(2, order + 1, 2):
        double_factorial = math.prod(range(1, degree - 2, 2))
        mu[degree] = (-1) ** (degree // 2 + 1) * double_factorial / math.sqrt(2.0 * math.pi * math.factorial(degree))
    return mu


def _absolute(order: int) -> Coefficients:
    """|z| = 2 relu(z) - z."""
    mu = 2.0 * _relu(order)
    mu[1] -= 1.0
    return mu


def _error_function(order: int, scale: float = 1.0) -> Coefficients:
    """erf(scale z): its kernel (2 / pi) arcsin(q c), q = 2 s^2 / (1 + 2 s^2), is sum_l mu_l^2 c^l."""
    q = 2.0 * scale**2 / (1.0 + 2.0 * scale**2)
    mu = np.zeros(order + 1)
    for k in range((order + 1) // 2):
        degree = 2 * k + 1
        arcsine = math.comb(2 * k, k) / (4.0**k * degree)
        mu[degree] = (-1) ** k * math.sqrt(2.0 / math.pi * arcsine * q**degree)
    return mu


def _gelu(order: int) -> Coefficients:
    """gelu(z) = (z + z erf(z / sqrt(2))) / 2, with z h_l = sqrt(l + 1) h_(l + 1) + sqrt(l) h_(l - 1)."""
    inner = _error_function(order + 1, math.sqrt(0.5))
    roots = np.sqrt(np.arange(order + 2))
    mu: Coefficients = roots[1:] * inner[1:]
    mu[1:] += roots[1 : order + 1] * inner[:order]
    mu[1] += 1.0
    return mu / 2.0


def _waves(order: int) -> Coefficients:
    """mu_l of sin z is (-1)^((l - 1) / 2) / sqrt(e l!), of cos(f z) (-1)^(l / 2) f^l exp(-f^2 / 2) / sqrt(l!)."""
    degrees = np.arange(order + 1)
    even = sum(w * f**degrees * math.exp(-f * f / 2.0) for w, f in zip(WEIGHTS, FREQUENCIES, strict=True))
    signs = np.where(degrees // 2 % 2, -1.0, 1.0)
    return signs * np.where(degrees % 2, math.exp(-0.5), even) / _factorials(order)


def _trapezoidal(activation: Activation, order: int) -> Coefficients:
    """E[phi(g) h_l(g)] by equal steps on [-15, 15], for activations without kinks."""
    step = 1.0 / 32.0
    points = np.arange(-15.0, 15.0 + step / 2.0, step)
    masses = step * np.exp(-(points**2) / 2.0) / math.sqrt(2.0 * math.pi)
    values = activation.value(torch.from_numpy(points)).numpy() * masses
    polynomials = special.eval_hermitenorm(np.arange(order + 1)[:, None], points)
    return polynomials @ values / _factorials(order)


_CLOSED: dict[str, Callable[[int], Coefficients]] = {
    "relu": _relu,
    "abs": _absolute,
    "erf": _error_function,
    "gelu": _gelu,
    "waves": _waves,
}


def reference(activation: Activation, order: int) -> tuple[str, Coefficients]:
    """How the reference was found, and mu_0 .. mu_order by it."""
    if activation.name in _CLOSED:
        return "closed form", _CLOSED[activation.name](order)
    if activation.name == "relu+tanh":
        return "closed form + trapezoidal", _relu(order) + _trapezoidal(named("tanh"), order)
    if activation.kinks:
        raise InputError(f"no reference for {activation.name!r}, which has kinks; valid: {', '.join(NAMES)}, or smooth")
    return "trapezoidal", _trapezoidal(activation, order)


def coefficients(tested: Sequence[str | Activation] = NAMES) -> Check:
    """The coefficients of every activation agree with their reference."""
    rows: list[Row] = []
    for activation in map(named, tested):
        source, expected = reference(activation, _ORDER)
        gap = float(np.abs(activation.hermite(_ORDER).numpy() - expected).max())
        rows.append((activation.name, source, *(float(mu) for mu in expected[:5]), gap))
    return Check(
        "Hermite coefficients",
        f"mu_0 .. mu_{_ORDER} of every activation are those of a reference of its own. waves, which meets Assumption 2 "
        "to the letter, is sin z + (3 e^-2 - 4 e^-1.5 cos z + cos 2z) / 2.",
        ("activation", "reference", "mu_0", "mu_1", "mu_2", "mu_3", "mu_4", "largest gap"),
        tuple(rows),
        passed=all(isinstance(row[-1], float) and row[-1] <= _TOLERANCE for row in rows),
        tolerance=_TOLERANCE,
    )


def _shown_parity(mu: Coefficients) -> Parity:
    """The parity that the coefficients show."""
    if not (np.abs(mu[1::2]) > _ZERO).any():
        return "even"
    return "none" if (np.abs(mu[::2]) > _ZERO).any() else "odd"


def parities(tested: Sequence[str | Activation] = NAMES) -> Check:
    """Declared parities are those of the coefficients, and so are the conditions of Assumption 2 on them.

    The paper's two examples are tested as well: relu has no odd order >= 3, and
    relu+tanh has both parities there. The last column lists what an activation lacks for Assumption 2 to the letter:
    relu+tanh, the paper's example, lacks two conditions, and only waves lacks none.
    """
    rows: list[Row] = []
    right = True
    for activation in map(named, tested):
        mu = np.abs(reference(activation, _ORDER)[1])
        odd, even = float(mu[3::2].max()), float(mu[4::2].max())
        mixed, parity = odd > _ZERO and even > _ZERO, _shown_parity(mu)
        conditions = activation.assumption_2()
        right &= parity == activation.parity and mixed == activation.signs_identified
        right &= conditions["mu_0_and_mu_2_vanish"] == bool((mu[[0, 2]] <= _ZERO).all())
        right &= conditions["mu_1_nonzero"] == bool(mu[1] > _ZERO)
        right &= {"relu": odd <= _ZERO, "relu+tanh": mixed}.get(activation.name, True)
        lacking = ", ".join(_CONDITIONS[name] for name, met in conditions.items() if not met)
        rows.append((activation.name, activation.parity, parity, odd, even, mixed, lacking or "nothing"))
    return Check(
        "parity and Assumption 2",
        "Coefficients vanish as the declared parity says; relu has no odd order >= 3, relu+tanh both parities there.",
        ("activation", "declared", "shown", "largest odd >= 3", "largest even >= 4", "both", "lacks for Assumption 2"),
        tuple(rows),
        passed=bool(right),
        tolerance=_ZERO,
    )
