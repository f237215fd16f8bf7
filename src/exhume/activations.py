"""Activations: value, slope, parity, homogeneity, Hermite coefficients and slope kernel of each.

Homogeneity decides whether the weights determine the norm of a sample; the parity of the Hermite coefficients decides
whether they determine its sign (Assumption 2 and Remark 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, SupportsIndex

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from exhume.errors import InputError
from exhume.support.validation import one_of, whole_number

Parity = Literal["even", "odd", "none"]
Reflection = Literal["even", "odd", "linear", "constant", "none"]
Elementwise = Callable[[Tensor], Tensor]

# A coefficient below this counts as zero: the quadrature is good to 1e-14, and the deciding ones exceed 1e-3.
_ZERO = 1e-9
_ORDERS_EXAMINED = 24
_NODES_PER_PANEL = 16
# A Hermite function is bounded, so the integrand of mu_l falls as exp(-g^2 / 4): 4e-19 here, whatever the order.
_HERMITE_REACH = 13.0
_KERNEL_REACH = 9.0  # here it falls as exp(-g^2 / 2): 3e-18
_KERNEL_DEGREE = 64
_QUANTILES = 1000  # of a Gaussian, at which slopes are tested for zero


@dataclass(frozen=True)
class Activation:
    """An activation phi, applied to each entry of a tensor, and its properties in closed form.

    Args:
        name: by which `get` finds it.
        value: phi itself.
        slope: its derivative phi', written out (no autograd).
        parity: "even", "odd", or "none" if phi is neither.
        homogeneity: the degree k of phi(r z) = r^k phi(z) for r > 0, None if there is none.
        kinks: where phi or phi' is not smooth; quadratures are split there.
        slope_is_lipschitz: whether phi' is Lipschitz, as Assumption 2 asks; False if phi' jumps.
        kernel: closed form of `slope_kernel`, if there is one.
        rectified: whether phi contains a ReLU, whose inactive side an attack may give a slope in the backward pass.

    Examples:
        >>> from exhume import Activation, activations
        >>> activations.get("relu").homogeneity, activations.get("tanh").parity
        (1, 'odd')
        >>> cube = Activation("cube", value=lambda z: z**3, slope=lambda z: 3 * z**2, parity="odd", homogeneity=3)
        >>> float(cube.hermite(3)[3])  # the root of 6
        2.44948974...
    """

    name: str
    value: Elementwise
    slope: Elementwise
    parity: Parity
    homogeneity: int | None = None
    kinks: tuple[float, ...] = ()
    slope_is_lipschitz: bool = True
    kernel: Elementwise | None = None
    rectified: bool = False

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickles a built-in activation by its name, since some of its functions are lambdas."""
        return (get, (self.name,)) if _BUILT_IN.get(self.name) is self else super().__reduce_ex__(protocol)

    @property
    def active_share(self) -> float:
        """Probability that the slope at a standard Gaussian is not exactly zero: 1/2 for ReLU, 1 if phi is smooth."""
        quantiles = (torch.arange(_QUANTILES, dtype=torch.float64) + 0.5) / _QUANTILES
        return float((self.slope(torch.special.ndtri(quantiles)) != 0).double().mean())

    def hermite(self, order: int) -> Tensor:
        """Coefficients mu_0 .. mu_order of phi in the normalised (probabilists') Hermite polynomials h_l.

        mu_l = E[phi(g) h_l(g)] for g ~ N(0, 1), a float64 tensor of length order + 1. Composite Gauss-Legendre
        quadrature, split at the kinks: a Gauss-Hermite rule loses digits at a kink and at tanh's nearby poles.
        """
        order = whole_number("order", order, least=0)
        return torch.from_numpy(_hermite_coefficients(self, order).copy())  # (order + 1,)

    def slope_kernel(self, cosines: Tensor) -> Tensor:
        """Slope kernel K(c) = E[phi'(z_1) phi'(z_2)] for standard Gaussians z_1, z_2 with correlation c.

        In closed form where there is one. Otherwise a Chebyshev series in the angle arccos c, in which K is smooth up
        to c = 1 even if phi' jumps, fitted once per activation to two-dimensional Gauss quadrature and good to 1e-9.
        Cosines are clamped to [-1, 1] against rounding.
        """
        cosines = cosines.clamp(-1.0, 1.0)
        if self.kernel is not None:
            return self.kernel(cosines)
        position = 2.0 / math.pi * torch.arccos(cosines) - 1.0  # the angle [0, pi] laid on [-1, 1]
        last, before = torch.zeros_like(position), torch.zeros_like(position)
        coefficients = _kernel_coefficients(self)
        for coefficient in reversed(coefficients[1:]):  # Clenshaw's recurrence
            last, before = 2.0 * position * last - before + coefficient, last
        return position * last - before + coefficients[0]

    def assumption_2(self) -> dict[str, bool]:
        """Each condition of Assumption 2, by name, and whether this activation meets it.

        The conditions are taken literally. relu+tanh, the paper's example of an activation that satisfies them, has
        the mixed parity that the argument about signs needs, but phi' jumps at 0, and mu_0 and mu_2 are those of relu,
        not 0. Whether phi is Lipschitz is tested by the growth of phi' on a wide grid; for phi' it is as declared.
        """
        mu = self.hermite(_ORDERS_EXAMINED).abs()
        near, far = (float(self.slope(_grid(reach)).abs().max()) for reach in (1e2, 1e4))
        return {
            "non_linear": bool((mu[2:] > _ZERO).any()),
            "lipschitz": far <= 2.0 * near + _ZERO,
            "lipschitz_slope": self.slope_is_lipschitz,
            "mu_0_and_mu_2_vanish": bool((mu[[0, 2]] <= _ZERO).all()),
            "mu_1_nonzero": bool(mu[1] > _ZERO),
            "mixed_parity_above_2": bool((mu[3::2] > _ZERO).any() and (mu[4::2] > _ZERO).any()),
        }

    @property
    def meets_assumption_2(self) -> bool:
        """Whether every condition of Assumption 2 holds literally; see `assumption_2` for each."""
        return all(self.assumption_2().values())

    @property
    def signs_identified(self) -> bool:
        """Whether the non-linear part alone determines the sign of every sample: the condition of Remark 1.

        True if there are non-zero coefficients of both parities among the orders >= 3 (relu+tanh). If it is False, the
        signs may still be determined: relu, gelu and softplus are z/2 plus an even function, and their linear part is
        an equation that determines the signs of independent samples. If `parity` is even or odd, they are not.
        """
        return self.assumption_2()["mixed_parity_above_2"]

    @property
    def reflection(self) -> Reflection:
        """What phi(-z) differs from phi(z) or -phi(z) by: nothing ("even", "odd"), or a linear or a constant part.

        relu, gelu and softplus are z/2 plus an even function ("linear"), sigmoid is 1/2 plus an odd one ("constant").
        """
        if self.parity != "none":
            return self.parity
        z = torch.linspace(0.1, 5.0, 50, dtype=torch.float64)
        plus, minus = self.value(z), self.value(-z)
        if float(((plus - minus) / z).std()) < _ZERO:
            return "linear"
        return "constant" if float((plus + minus).std()) < _ZERO else "none"

    @property
    def identifies_norm(self) -> bool:
        """Whether the span of the features determines a sample's norm; it does not if phi is homogeneous."""
        return self.homogeneity is None


def _grid(reach: float) -> Tensor:
    """Points within the reach, symmetric about 0 and away from round numbers, where kinks are."""
    half = torch.linspace(0.0137, reach, 257, dtype=torch.float64)
    return torch.cat((-half.flip(0), half))


def _panel_nodes(left: NDArray[np.float64], right: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Gauss-Legendre nodes on panels [left, right] and their weights under N(0, 1), each (..., panels * nodes)."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES_PER_PANEL)
    half = (right - left)[..., None] / 2.0
    points = (right + left)[..., None] / 2.0 + half * nodes
    masses = half * weights * np.exp(-(points**2) / 2.0) / math.sqrt(2.0 * math.pi)
    return points.reshape(*left.shape[:-1], -1), masses.reshape(*left.shape[:-1], -1)


@lru_cache(maxsize=64)
def _hermite_coefficients(activation: Activation, order: int) -> NDArray[np.float64]:
    """mu_l for l = 0 .. order; the polynomials carry the factor exp(-g^2 / 4), without which they overflow."""
    reach = _HERMITE_REACH
    edges = np.union1d(np.arange(-reach, reach + 0.25, 0.5), [k for k in activation.kinks if abs(k) < reach])
    points, masses = _panel_nodes(edges[:-1], edges[1:])
    values = activation.value(torch.from_numpy(points)).numpy() * masses * np.exp(points**2 / 4.0)
    current, before = np.exp(-(points**2) / 4.0), np.zeros_like(points)
    coefficients = np.empty(order + 1)
    for degree in range(order + 1):
        coefficients[degree] = values @ current
        current, before = (points * current - math.sqrt(degree) * before) / math.sqrt(degree + 1), current
    return coefficients


@lru_cache(maxsize=64)
def _kernel_coefficients(activation: Activation) -> tuple[float, ...]:
    """Chebyshev coefficients of K(cos t) for the angle t in [0, pi]."""
    reach = _KERNEL_REACH
    kinks = np.array([k for k in activation.kinks if abs(k) < reach], dtype=np.float64)
    whole = np.arange(-reach, reach + 1.0)
    # Near a kink the inner integral changes within sin t, however small: panels that halve towards it resolve that.
    steps = 0.5 ** np.arange(0, 14)
    edges = np.union1d(whole, kinks[:, None] + np.concatenate((-steps, [0.0], steps)))
    outer, outer_masses = _panel_nodes(edges[:-1], edges[1:])  # (o,)
    outer_slopes = activation.slope(torch.from_numpy(outer)).numpy() * outer_masses

    def kernel_at(angle: float) -> float:
        """K(cos t), with z_2 = z_1 cos t + z_3 sin t, integrated over z_3 between the kinks and then over z_1."""
        moved = (kinks - outer[:, None] * math.cos(angle)) / math.sin(angle)  # (o, number of kinks)
        inner_edges = np.concatenate((np.broadcast_to(whole, (outer.size, whole.size)), moved.clip(-reach, reach)), 1)
        inner_edges.sort(axis=1)
        inner, inner_masses = _panel_nodes(inner_edges[:, :-1], inner_edges[:, 1:])  # (o, i)
        second = torch.from_numpy(outer[:, None] * math.cos(angle) + inner * math.sin(angle))
        return float(outer_slopes @ (activation.slope(second).numpy() * inner_masses).sum(1))

    values = np.vectorize(lambda place: kernel_at(math.pi / 2.0 * (1.0 + place)))
    return tuple(np.polynomial.chebyshev.chebinterpolate(values, _KERNEL_DEGREE).tolist())


def _step(z: Tensor) -> Tensor:
    """1 where z > 0, else 0; without booleans, which are several times slower to make and convert."""
    return z.relu().sign_()


def _bell(z: Tensor) -> Tensor:
    """Derivative of tanh."""
    return 1.0 - torch.tanh(z).square()


def _step_and_bell(z: Tensor) -> Tensor:
    """Derivative of relu + tanh, 1 at 0."""
    return _step(z) + _bell(z)


def _erf_slope(z: Tensor) -> Tensor:
    """Derivative of erf."""
    return 2.0 / math.sqrt(math.pi) * torch.exp(-z.square())


def _gelu_slope(z: Tensor) -> Tensor:
    """Derivative of z times the normal distribution function."""
    return z * torch.exp(-z.square() / 2.0) / math.sqrt(2.0 * math.pi) + torch.erfc(-z / math.sqrt(2.0)) / 2.0


def _relu_kernel(cosines: Tensor) -> Tensor:
    """Arc-cosine kernel of order 0: the share of half-spaces that hold both of two directions."""
    return (math.pi - torch.arccos(cosines)) / (2.0 * math.pi)


# name, value, slope, parity, homogeneity, kinks, whether the slope is Lipschitz, closed form of the slope kernel
_BUILT_IN = {
    activation.name: activation
    for activation in (
        Activation("relu", torch.relu, _step, "none", 1, (0.0,), False, _relu_kernel, rectified=True),
        Activation("abs", torch.abs, torch.sign, "even", 1, (0.0,), False, lambda c: 2.0 / math.pi * torch.arcsin(c)),
        Activation(
            "relu+tanh", lambda z: z.relu() + z.tanh(), _step_and_bell, "none", None, (0.0,), False, rectified=True
        ),
        Activation("tanh", torch.tanh, _bell, "odd"),
        Activation("erf", torch.erf, _erf_slope, "odd", kernel=lambda c: 4.0 / math.pi * (9.0 - 4.0 * c * c).rsqrt()),
        Activation("gelu", functional.gelu, _gelu_slope, "none"),
        # torch's own threshold of 20 costs 2e-9 in float64
        Activation("softplus", lambda z: functional.softplus(z, threshold=40.0), torch.sigmoid, "none"),
        Activation("sigmoid", torch.sigmoid, lambda z: torch.sigmoid(z) * torch.sigmoid(-z), "none"),
    )
}
_REGISTERED: dict[str, Activation] = {}


def names() -> tuple[str, ...]:
    """Names that `get` knows, in alphabetical order: the built-in ones and those registered by the user."""
    return tuple(sorted({**_BUILT_IN, **_REGISTERED}))


def get(activation: str | Activation) -> Activation:
    """The activation of that name; an `Activation` is returned as it is."""
    if isinstance(activation, Activation):
        return activation
    known = {**_REGISTERED, **_BUILT_IN}
    return known[one_of("activation", activation, known)]


def register(activation: Activation) -> Activation:
    """Makes an activation of the user's own available by name, after testing what it declares on a grid."""
    if not activation.name or activation.name in _BUILT_IN:
        raise InputError(
            f"the name {activation.name!r} is empty or built in; valid: any other than {', '.join(_BUILT_IN)}"
        )
    _check_slope(activation)
    _check_symmetries(activation)
    _check_kernel(activation)
    _REGISTERED[activation.name] = activation
    return activation


def _check_slope(activation: Activation) -> None:
    """Compares the slope with a central difference of the value, away from kinks; the dtype must be kept."""
    z, step = _grid(6.0), 1e-5
    z = z[[all(abs(place - kink) > 2.0 * step for kink in activation.kinks) for place in z.tolist()]]
    for function in (activation.value, activation.slope):
        kept = function(z.float())
        if kept.shape != z.shape or kept.dtype != torch.float32:
            raise InputError(
                f"{activation.name!r} maps float32 {tuple(z.shape)} to {kept.dtype} {tuple(kept.shape)}; "
                "valid: the same dtype and shape"
            )
    difference = (activation.value(z + step) - activation.value(z - step)) / (2.0 * step)
    slope = activation.slope(z)
    wrong = ~((slope - difference).abs() <= 1e-5 * (1.0 + slope.abs()))  # so that NaN counts as wrong
    if wrong.any():
        at, given, exact = (float(numbers[wrong][0]) for numbers in (z, slope, difference))
        raise InputError(
            f"the slope of {activation.name!r} at {at:.4g} is {given:.6g}; valid: the finite difference, {exact:.6g}"
        )


def _check_symmetries(activation: Activation) -> None:
    """Compares the declared parity and homogeneity with those of the values on a grid."""
    z = _grid(6.0)
    value, mirrored = activation.value(z), activation.value(-z)
    parity = "even" if torch.allclose(mirrored, value) else "odd" if torch.allclose(mirrored, -value) else "none"
    if activation.parity != parity:
        raise InputError(f"{activation.name!r} declares parity {activation.parity!r}; its values show {parity!r}")
    scaled = [(r, activation.value(r * z)) for r in (0.5, 2.0, 3.0)]
    degrees = [k for k in range(6) if all(torch.allclose(moved, r**k * value) for r, moved in scaled)]
    shown = degrees[0] if degrees else None
    if activation.homogeneity != shown:
        raise InputError(f"{activation.name!r} declares homogeneity {activation.homogeneity}; its values show {shown}")


def _check_kernel(activation: Activation) -> None:
    """Compares a declared closed form of the slope kernel with the quadrature."""
    cosines = torch.linspace(-1.0, 1.0, 21, dtype=torch.float64)
    quadrature = replace(activation, kernel=None).slope_kernel(cosines)
    gap = float((activation.slope_kernel(cosines) - quadrature).abs().max())  # 0 if no closed form is declared
    if not gap <= 1e-5:
        raise InputError(
            f"the kernel of {activation.name!r} differs from its quadrature by {gap:.3g}; valid: at most 1e-5"
        )
