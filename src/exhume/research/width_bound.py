"""A width from which the weights provably determine the samples, whatever search an adversary uses.

Random features act(V x) with Gaussian rows, inputs x_i = sqrt(d) u_i in an r-dimensional subspace, and parameters
theta_k = sum_i a_i act(g_k . u_i), g_k ~ N(0, I_r), k = 1 .. p. A candidate, points v_j with coefficients b_j, leaves
the residual h(g) = sum_i a_i act(g . u_i) - sum_j b_j act(g . v_j). If it misses sample i, a test function q_i of
norm 1 has E h q_i >= sqrt(kappa), and the mean over p coordinates is close to that for all samples and candidates at
once (Hoeffding or Bernstein, and a net over one sphere), so that h cannot vanish. The law counts from below, this from
above; docs/reference/width_bound.md has the proof and every assumption.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from exhume import activations
from exhume.activations import Activation
from exhume.errors import InputError
from exhume.research.separating_function import Numbers, SeparatingFunction, best_separating_function
from exhume.support.validation import whole_number

# sup |act| and sup |act'|
_BOUNDS = {"erf": (1.0, 2.0 / math.sqrt(math.pi)), "sigmoid": (1.0, 0.25), "tanh": (1.0, 1.0)}
_DEGREES = (3, 7, 15, 31, 63, 127)  # of the test functions tried
_CLIPS = np.geomspace(2.0, 2e6, 70)[:, None]  # T, at which a test function is clipped
_SHARES = np.geomspace(1e-3, 0.2, 20)  # of sqrt(kappa): one for the net, one for the candidate's own residual
# While p rows in the subspace have norm at most 2 sqrt(p), and sum_k q(g_k)^2 is at most 2 p.
_STRETCH, _SIZE = 2.0, math.sqrt(2.0)
_CHERNOFF = 1.0 / (2.0 * math.log(2.0) - 1.0)  # p >= this T^2 log(1 / delta) keeps the latter


@dataclass(frozen=True)
class WidthBound:
    """A sufficient width and the quantities of its proof.

    Attributes:
        width: p, from which on the guarantee holds (Bernstein's inequality).
        hoeffding_width: the same from Hoeffding's inequality, which knows the bound on the summands alone.
        input_dim: d.
        num_samples: n.
        subspace_dim: dimension r of the subspace that holds the samples, or None for r = d.
        activation: its name.
        error: eps, the distance up to sign, relative to sqrt(d), within which a sample counts as recovered.
        margin: least such distance between two samples.
        smallest_coefficient: least |a_i|.
        largest_coefficient: largest |a_i|; n times this bounds sum_j |b_j| of a candidate.
        failure_probability: delta.
        cosine: rho, the largest |cosine| between a missed sample and everything else.
        separation: kappa, which E h^2 reaches for every candidate that misses a sample.
        hermite_order: degree of the test function that shows it.
        summand_bound: T sup |act|, which clipped test function times feature never exceeds.
        deviation: t, by which the mean of such a summand may be off, all over the net.
        residual: root-mean-square residual per coordinate up to which a candidate is covered by the guarantee.
        net_radius: of the net of directions.
        log_net_size: logarithm of its size.
    """

    width: int
    hoeffding_width: int
    input_dim: int
    num_samples: int
    subspace_dim: int | None
    activation: str
    error: float
    margin: float
    smallest_coefficient: float
    largest_coefficient: float
    failure_probability: float
    cosine: float
    separation: float
    hermite_order: int
    summand_bound: float
    deviation: float
    residual: float
    net_radius: float
    log_net_size: float

    def to_json(self) -> dict[str, Any]:
        """Every field and the sentence, as plain JSON values."""
        return {**asdict(self), "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """The guarantee in plain words."""
        sizes = f"n = {self.num_samples:,}, {self.activation}, {self.subspace_dim or self.input_dim:,} dimensions"
        return (
            f"From {self.width:,} features on, with probability {1.0 - self.failure_probability:g}: whatever points "
            f"explain the weights to {self.residual:.2g} per coordinate, every sample is within {self.error:g} sqrt(d) "
            f"of one of them, up to sign ({sizes})."
        )


def sufficient_width(
    input_dim: int,
    num_samples: int,
    error: float,
    margin: float,
    smallest_coefficient: float = 1.0,
    largest_coefficient: float = 1.0,
    activation: str | Activation = "tanh",
    subspace_dim: int | None = None,
    failure_probability: float = 0.01,
    bounds: tuple[float, float] | None = None,
) -> WidthBound:
    """A width at which, with probability 1 - delta, every solution of the span equation contains every sample.

    Args:
        input_dim: d.
        num_samples: n.
        error: eps, of a recovered sample: distance up to sign, relative to sqrt(d).
        margin: least such distance between two samples.
        smallest_coefficient: least |a_i|; only its ratio to the largest matters for the width.
        largest_coefficient: largest |a_i|; n times this bounds sum_j |b_j| of a candidate.
        activation: a bounded one.
        subspace_dim: dimension of a known subspace that holds samples and candidates; it takes the place of d.
        failure_probability: delta, over the draw of V.
        bounds: sup |act| and sup |act'| of an activation that is not built in.
    """
    d, n = whole_number("input_dim", input_dim), whole_number("num_samples", num_samples)
    r = d if subspace_dim is None else whole_number("subspace_dim", subspace_dim)
    if r > d:
        raise InputError(f"subspace_dim is {r}; valid: at most input_dim, which is {d}")
    error, margin = _positive("error", error, math.sqrt(2.0)), _positive("margin", margin, 1.4143)
    a_max = _positive("largest_coefficient", largest_coefficient, math.inf)
    a_min = _positive("smallest_coefficient", smallest_coefficient, math.nextafter(a_max, math.inf))
    delta = _positive("failure_probability", failure_probability, 1.0)
    act = activations.get(activation)
    sups = _bounds(act, bounds)
    nearest = error if n == 1 else min(error, margin)
    rho = max(0.0, 1.0 - nearest * nearest / 2.0)
    functions = [best_separating_function(act, degree, rho, (2 * n - 1) * a_max / a_min) for degree in _DEGREES]
    trials = [_trial(each, n, r, (a_min, a_max), sups, delta) for each in functions if each.gap > 0.0]
    if not trials:
        raise InputError(
            f"error is {error:g} and margin {margin:g}, with coefficients of {a_min:g} to {a_max:g}: what one of {n} "
            f"samples adds to features of {act.name!r} is lost in rounding; valid: a larger error and margin"
        )
    least = min(trial["width"] for trial in trials)
    best = next(trial for trial in trials if trial["width"] <= 1.01 * least)  # of lowest degree
    return WidthBound(
        **best | {"hoeffding_width": min(trial["hoeffding_width"] for trial in trials)},
        cosine=rho,
        input_dim=d,
        num_samples=n,
        subspace_dim=None if subspace_dim is None else r,
        activation=act.name,
        error=error,
        margin=margin,
        smallest_coefficient=a_min,
        largest_coefficient=a_max,
        failure_probability=delta,
    )


def _trial(
    function: SeparatingFunction,
    n: int,
    r: int,
    coefficients: tuple[float, float],
    sups: tuple[float, float],
    delta: float,
) -> dict[str, Any]:
    """The width that one test function proves, and the other fields of `WidthBound` that depend on the function.

    Divides sqrt(kappa) between clipping, the candidate's own residual, the net and deviations, in the best way.

    Clipping costs 2 n sup|act| E (|q| - T)_+; residual and net a share each; what is left goes to deviations, n t of
    the net and n t' of the pairs of samples, in such parts that both ask the same width (nearly, for Bernstein).
    """
    (a_min, a_max), (value_bound, slope_bound) = coefficients, sups
    excess = function.excess(_CLIPS[:, 0])[:, None]
    budget = np.maximum(a_min / a_max * function.gap - 2.0 * n * value_bound * excess, 1e-30)  # (clips, 1)
    residual = _SHARES * budget / _SIZE  # (clips, shares), and so on
    radius = np.minimum(1.0, _SHARES * budget / (n * slope_bound * _SIZE * _STRETCH))
    net = log_net_size(radius, r)
    logs, pair_logs = net + math.log(8.0 * n / delta), math.log(8.0 * n * n / delta)
    allowed = (1.0 - 2.0 * _SHARES) * budget / n
    deviation = allowed * np.sqrt(logs) / (np.sqrt(logs) + math.sqrt(pair_logs))
    summand = _CLIPS * value_bound
    bernstein = 2.0 * logs * (value_bound**2 + summand * deviation / 3.0) / deviation**2
    pairs = allowed - deviation
    bernstein_pairs = 2.0 * pair_logs * (value_bound**2 + summand * pairs / 3.0) / pairs**2
    stretch = ((math.sqrt(r) + math.sqrt(2.0 * math.log(4.0 / delta))) / (_STRETCH - 1.0)) ** 2
    least = np.maximum(_CHERNOFF * _CLIPS**2 * math.log(4.0 * n / delta), stretch)
    width = np.maximum(np.maximum(bernstein, bernstein_pairs), least)
    hoeffding = np.maximum(2.0 * logs * (summand / deviation) ** 2, least)
    at = np.unravel_index(int(np.argmin(width)), width.shape)
    return {
        "width": math.ceil(width[at]),
        "hoeffding_width": math.ceil(hoeffding.min()),
        "separation": (a_min * function.gap) ** 2,
        "hermite_order": function.degree,
        "summand_bound": float(summand[at[0], 0]),
        "deviation": float(deviation[at]),
        "residual": float(residual[at]) * a_max,
        "net_radius": float(radius[at]),
        "log_net_size": float(net[at]),
    }


def log_net_size(radius: Numbers, dim: int) -> Numbers:
    """log of the most points that a net of a part of the unit sphere in r dimensions need have.

    Take points in that part, each farther than the radius from the others, until no more fit. Balls of half the radius
    around them are disjoint and lie in a shell: with z = 2 / radius they are (z + 1)^r - (z - 1)^r at most.
    """
    z = 2.0 / radius
    return dim * np.log1p(z) + np.log(-np.expm1(dim * np.log1p(-2.0 / (z + 1.0))))


def _bounds(activation: Activation, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """sup |act| and sup |act'|, from the table or as given; given ones are checked on a grid."""
    if bounds is None:
        if activation.name not in _BOUNDS or activations.get(activation.name) is not activation:
            raise InputError(
                f"no bounds are known of the activation {activation.name!r}; valid: {', '.join(_BOUNDS)}, or another "
                f"bounded one with bounds=(sup |act|, sup |act'|)"
            )
        return _BOUNDS[activation.name]
    grid = torch.linspace(-50.0, 50.0, 100_001, dtype=torch.float64)
    for function, bound in zip((activation.value, activation.slope), bounds, strict=True):
        seen = float(function(grid).abs().max())
        if not seen <= _positive("bounds", bound, math.inf):
            raise InputError(f"bounds are {bounds}, but {activation.name!r} reaches {seen:.6g}; valid: at least that")
    return bounds


def _positive(name: str, value: float, limit: float) -> float:
    """The value as a float in (0, limit), or an error that says which numbers are valid."""
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 < number < limit:
        raise InputError(f"{name} is {value!r}; valid: a number above 0 and below {limit:.6g}")
    return number
