"""Span inclusion and recovery: how the residual r of Eq. (167) depends on the error of samples and on their signs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median_high

import torch
from torch import Tensor

from exhume.activations import Activation
from exhume.features import RandomFeatureMap
from exhume.research.theory.setting import Check, PowerLaw, Row, entries, feature_map, named, sphere_samples
from exhume.scoring.matching import match, on_sphere
from exhume.scoring.metrics import orthogonal_residual
from exhume.support.randomness import generator_for

_DIM, _SAMPLES = 30, 10
_RATIO = 20  # p / (d n)
_SIZES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
_TOLERANCE = 0.05
_ZERO = 1e-12  # a residual below this is rounding
_SIGNED = ("abs", "tanh", "erf", "relu", "gelu", "relu+tanh", "waves")


def error(truth: Tensor, rows: Tensor) -> float:
    """rho of Eq. (12), with signs, which Theorem 1 determines."""
    return float(match(truth, rows, up_to_sign=False).errors.mean())


def tangent_basis(sample: Tensor) -> Tensor:
    """An orthonormal basis of the directions on the sphere at a sample, (d, d - 1)."""
    return torch.linalg.qr(sample[:, None], mode="complete")[0][:, 1:]


def sample_jacobians(features: RandomFeatureMap, inputs: Tensor) -> list[Tensor]:
    """For every sample P_perp d phi(x_i) / d x_i along the sphere, (p, d - 1).

    P_perp projects out the span of the features of all samples.
    """
    at = features.linearise(inputs)
    matrix = entries(features)
    basis = torch.linalg.qr(at.features.T)[0]  # (p, min(n, p))
    jacobians = []
    for sample, slopes in zip(inputs, at.slopes, strict=True):
        moved = slopes[:, None] * (matrix @ tangent_basis(sample))
        for _ in range(2):  # the second pass removes the rounding error of the first
            moved = moved - basis @ (basis.T @ moved)
        jacobians.append(moved)
    return jacobians


def worst_directions(features: RandomFeatureMap, inputs: Tensor) -> Tensor:
    """For every sample the direction on the sphere in which the span is least sensitive to it, of length sqrt(d)."""
    directions = []
    for sample, jacobian in zip(inputs, sample_jacobians(features, inputs), strict=True):
        _, _, right = torch.linalg.svd(jacobian, full_matrices=False)
        directions.append(tangent_basis(sample) @ right[-1])
    return on_sphere(torch.stack(directions))


def residual_follows_error(activation: str | Activation = "waves", seed: int = 0) -> Check:
    """With p >> dn the residual r is proportional to the error, also in the direction in which it is smallest.

    The samples are moved along the sphere, in random directions and in the worst one, and r is measured at the moved
    samples; the exponent is fitted to the worst direction. Unrelated samples must leave a larger residual than all
    moved ones. With p < n any samples span all features and r vanishes whatever the error is (last column).

    The last row is over several unrelated data sets: the mean error and residual, the smallest residual in the column
    of the worst direction, and the median residual at p < n, because a relu that no other sample activates leaves a
    residual even there.
    """
    act, n, d = named(activation), _SAMPLES, _DIM
    inputs = sphere_samples(n, d, seed, "recovery")
    generator = generator_for(seed, "theory perturbations")
    wide = feature_map(_RATIO * d * n, d, act, seed, "recovery")
    narrow = feature_map(n // 2, d, act, seed, "recovery")

    def residual(features: RandomFeatureMap, rows: Tensor) -> float:
        return orthogonal_residual(features.forward(inputs), features.forward(rows))

    aimless = on_sphere(torch.randn(n, d, generator=generator, dtype=torch.float64))
    worst = worst_directions(wide, inputs)
    table, errors, least = [], [], []
    for size in _SIZES:
        at_random, in_worst = (on_sphere(inputs + size * direction) for direction in (aimless, worst))
        errors.append(error(inputs, in_worst))
        least.append(residual(wide, in_worst))
        table.append((errors[-1], residual(wide, at_random), least[-1], residual(narrow, at_random)))
    others = [sphere_samples(n, d, seed, f"other samples {k}") for k in range(8)]
    far = [residual(wide, rows) for rows in others]
    rows: list[Row] = [(f"{size:.0e}", *values) for size, values in zip(_SIZES, table, strict=True)]
    distance = fmean(error(inputs, other) for other in others)
    trivial = median_high(residual(narrow, other) for other in others)
    rows.append(("other samples", distance, fmean(far), min(far), trivial))
    visible = [value if value > _ZERO else 0.0 for value in least]
    return PowerLaw(errors, visible, exponent=1.0, tolerance=_TOLERANCE).check(
        f"residual against error, {act.name}",
        f"With p = {_RATIO} dn the residual r of Eq. (167) vanishes with the error and in proportion to it; with "
        f"p = n/2 it is 0 for any samples. d = {d}, n = {n}.",
        ("moved by", "error rho", "r, random direction", "r, worst direction", "r, p = n/2"),
        rows,
        also=min(far) > max(least) and trivial <= _ZERO and max(row[-1] for row in table) <= _ZERO,
    )


def signs(tested: Sequence[str | Activation] = _SIGNED, seed: int = 0) -> Check:
    """Remark 1: the span does not depend on signs if the activation is even or odd, and does if it is neither.

    Half of the samples are replaced by their negatives. For relu the span depends on signs through its linear part;
    the paper calls the signs of relu ambiguous because it has no odd order above the first.
    """
    n, d = _SAMPLES, _DIM
    inputs = sphere_samples(n, d, seed, "signs")
    flipped = inputs.clone()
    flipped[: n // 2] *= -1.0
    rows: list[Row] = []
    right = True
    for activation in map(named, tested):
        features = feature_map(_RATIO * d * n, d, activation, seed, "signs")
        truth = features.forward(inputs)
        left = orthogonal_residual(truth, features.forward(flipped))
        other = orthogonal_residual(truth, features.forward(sphere_samples(n, d, seed, "signs, others")))
        right &= (left <= _ZERO) == (activation.parity != "none")
        rows.append((activation.name, activation.parity, left, other, left <= _ZERO))
    return Check(
        "signs, Remark 1",
        f"Negatives of samples leave no residual if and only if the activation is even or odd; p = {_RATIO} dn.",
        ("activation", "declared parity", "r, half negated", "r, other samples", "signs are hidden"),
        tuple(rows),
        passed=bool(right),
        tolerance=_ZERO,
    )
