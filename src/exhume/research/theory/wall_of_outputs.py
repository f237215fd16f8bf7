"""The wall of several outputs: features at which the Jacobian of the span equation gets full rank, and the forecast.

At random samples, coefficients and features the equation Theta = A^T Phi(X) is differentiated in X and A. Its Jacobian
has full column rank, up to the norms that a homogeneous activation hides, once there are enough features h.
`exhume.wall.Wall` counts them: all equations together, and those of each sample through its active features.
"""

from __future__ import annotations

from statistics import median

import torch
from torch import Tensor

from exhume.activations import Activation
from exhume.features import RandomFeatureMap
from exhume.research.theory.setting import Check, Row, entries, feature_map, named, sphere_samples
from exhume.support.randomness import generator_for
from exhume.wall import Wall

# (k, n, d): few and many outputs for the samples, either count binding, and both near each other.
_SIZES = ((1, 1, 20), (1, 3, 20), (1, 8, 15), (2, 4, 20), (2, 8, 20), (5, 3, 20), (5, 5, 20), (5, 10, 20), (8, 8, 20))
_DRAWS = 5
_RANK = 1e-10  # singular values below this share of the largest are zero
# Of the median of the draws, in standard deviations sqrt(h s (1 - s)) of a sample's active features, over s.
_DEVIATIONS = 1.5


def fewest_features(activation: str | Activation = "relu", seed: int = 0) -> Check:
    """The fewest features at which the rank is full are those of the forecast, up to the chance of what is active.

    The forecast asks for more equations than unknowns, so it may be one feature above the rank's. Where all features
    are active on all samples nothing is left to chance: every draw must have that number.
    """
    act = named(activation)
    share, rows, right = act.active_share, list[Row](), True
    for k, n, d in _SIZES:
        numbers = d + (act.homogeneity is None)
        wall = Wall(numbers, k, n, active_share=share)
        counted = wall.features()
        found = sorted(_fewest(act, (k, n, d), seed, draw, 2 * counted) for draw in range(_DRAWS))
        tolerance = 1 + _DEVIATIONS * (counted * (1 - share) / share) ** 0.5
        exact = {counted - each for each in found} <= {0, 1}
        right &= exact if share == 1 else abs(counted - median(found)) <= tolerance
        binding = "each sample" if wall.features_per_sample() > wall.features_together() else "together"
        rows.append((k, n, d, found[0], found[len(found) // 2], found[-1], counted, binding))
    return Check(
        f"features that determine the samples, {act.name}",
        f"The Jacobian of the span equation has full rank from the counted number of features on: least, median and "
        f"largest of {_DRAWS} draws; a sample is active on {share:g} of the features.",
        ("k", "n", "d", "least", "median", "largest", "counted", "binding"),
        tuple(rows),
        passed=right,
        tolerance=_RANK,
    )


def _fewest(activation: Activation, sizes: tuple[int, int, int], seed: int, draw: int, most: int) -> int:
    """The smallest number of features with full rank, by bisection; more features never lower a rank."""
    k, n, d = sizes
    purpose = f"wall of outputs {sizes} {draw}"
    inputs = sphere_samples(n, d, seed, purpose)
    coefficients = torch.randn((n, k), generator=generator_for(seed, purpose), dtype=torch.float64)
    unknowns = n * (d + k) - (n if activation.homogeneity is not None else 0)
    whole = jacobian(feature_map(most, d, activation, seed, purpose), inputs, coefficients)
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        part = whole[:middle].flatten(0, 1)
        values = torch.linalg.svdvals(part) if len(part) >= unknowns else None
        full = values is not None and float(values[unknowns - 1]) > _RANK * float(values[0])
        low, high = (low, middle) if full else (middle, high)
    return high


def jacobian(features: RandomFeatureMap, inputs: Tensor, coefficients: Tensor) -> Tensor:
    """The derivative of A^T Phi(X) in X and A: (h, k, n d + n k)."""
    matrix, outputs = entries(features), torch.eye(coefficients.shape[1], dtype=inputs.dtype)
    z = inputs @ matrix.T  # (n, h)
    slopes, values = features.activation.slope(z), features.activation.value(z)
    in_samples = torch.einsum("ik,ih,hd->hkid", coefficients, slopes, matrix).flatten(2)
    in_coefficients = torch.einsum("ih,kl->hkil", values, outputs).flatten(2)
    return torch.cat((in_samples, in_coefficients), 2)
