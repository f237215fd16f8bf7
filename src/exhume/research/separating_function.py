"""A test function of the random rows that separates a sample from everything whose cosine with it is small.

Let u be the direction of a sample and q(g) = sum_l w_l H_l(g . u), H_l the normalised Hermite polynomials, w of norm 1.
Against the feature of another direction v, E q(g) act(g . v) = f(u . v) with f(t) = sum_l c_l w_l t^l, c_l the Hermite
coefficients of the activation. If f is large at 1 and small on [-rho, rho], then q correlates with the sample's feature
and hardly with any whose cosine with it is at most rho, so no combination of such features can replace the sample's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from exhume.activations import Activation

Numbers = NDArray[np.float64]

# Error that is assumed in every coefficient of f, later rounding included. Measured against 40 digits, the Hermite
# coefficients of tanh, erf and sigmoid are off by 1e-16 up to order 127.
_ROUNDING = 1e-13
_PLACES = 200  # cosines at which the search bounds f
_NODES_PER_DEGREE = 64  # nodes for the certified maximum of f
_REACH, _STEP = 13.0, 4e-3
_BEYOND = 1e-18  # E |q| beyond the reach is at most sqrt(P(|z| > 13)) = 1.1e-19
_QUADRATURE_MARGIN = 1.05  # on the midpoint rule, which is far better than that


@dataclass(frozen=True, eq=False)
class SeparatingFunction:
    """A test function q of norm 1 and the gap that it proves.

    Attributes:
        weights: (degree + 1,) its Hermite coefficients w.
        gap: f(1) - mass max |f| over [-rho, rho], less the error of rounding. If it is positive, a sample of
            coefficient 1, beside others of total size mass and cosines of at most rho with it, leaves a residual h
            with E h^2 >= (E h q)^2 >= gap^2.
    """

    weights: Numbers
    gap: float

    @property
    def degree(self) -> int:
        """Degree of q and of f."""
        return self.weights.size - 1

    def excess(self, limits: Numbers) -> Numbers:
        """Upper bounds on E (|q| - T)_+, which clipping q at T costs, for each of the limits T."""
        sizes, masses = self._sizes
        found = [float(np.maximum(sizes - limit, 0.0) @ masses) for limit in limits]
        return _QUADRATURE_MARGIN * np.array(found) + _BEYOND

    @cached_property
    def _sizes(self) -> tuple[Numbers, Numbers]:
        """|q| on a grid of g . u, and the probability of each cell."""
        points: Numbers = np.arange(_STEP / 2.0 - _REACH, _REACH, _STEP)
        return np.abs(self.values(points)), np.exp(-(points**2) / 2.0) * (_STEP / math.sqrt(2.0 * math.pi))

    def values(self, points: Numbers) -> Numbers:
        """q where g . u has the given values."""
        current, before, total = np.ones_like(points), np.zeros_like(points), np.zeros_like(points)
        for order, weight in enumerate(self.weights.tolist()):
            total += weight * current
            current, before = (points * current - math.sqrt(order) * before) / math.sqrt(order + 1), current
        return total


@lru_cache(maxsize=256)
def best_separating_function(activation: Activation, degree: int, cosine: float, mass: float) -> SeparatingFunction:
    """The separating function of that degree with the largest gap, which may be negative.

    The gap is certified, however good the weights that the search found: a polynomial's maximum is at most that over N
    Chebyshev nodes divided by cos(pi degree / 2 N) (Ehlich and Zeller).
    """
    mu = activation.hermite(degree).numpy()
    orders = np.flatnonzero(np.abs(mu) > 10.0 * _ROUNDING)
    found = _unit_weights(mu[orders], orders, cosine, mass)
    weights = np.zeros(degree + 1)
    weights[orders] = found
    nodes = _chebyshev_nodes(_NODES_PER_DEGREE * degree, cosine)
    highest = float(np.abs(np.polynomial.polynomial.polyval(nodes, mu * weights)).max())
    peak = highest / math.cos(math.pi / (2.0 * _NODES_PER_DEGREE))
    rounding = _ROUNDING * (1.0 + mass) * float(np.abs(weights).sum())
    return SeparatingFunction(weights, float(mu @ weights) - mass * peak - rounding)


def _unit_weights(mu: Numbers, orders: NDArray[np.intp], cosine: float, mass: float) -> Numbers:
    """Weights w of norm 1 that make f(1) - mass max |f(t)| large, the maximum over a grid of t.

    Up to scale: the shortest w with f(1) -+ mass f(t) >= 1 for every t, a least-distance problem, which becomes one of
    non-negative least squares (Lawson and Hanson, chapter 23).
    """
    powers = mass * _chebyshev_nodes(_PLACES, cosine) ** orders[:, None]  # (orders, places)
    sides = mu[:, None] * np.hstack((1.0 - powers, 1.0 + powers))  # a column for each inequality
    pushes, _ = nnls(np.vstack((sides, np.ones(sides.shape[1]))), np.append(np.zeros(orders.size), 1.0))
    weights: Numbers = sides @ pushes
    return weights / max(float(np.linalg.norm(weights)), 1e-300)


def _chebyshev_nodes(count: int, cosine: float) -> Numbers:
    """(count,) on [-cosine, cosine]."""
    nodes: Numbers = cosine * np.polynomial.chebyshev.chebpts1(count)
    return nodes
