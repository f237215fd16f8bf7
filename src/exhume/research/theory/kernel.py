"""The kernel: Phi Phi^T / p is near its mean K, and its smallest eigenvalue stays away from zero, Eq. (14)."""

from __future__ import annotations

import torch
from torch import Tensor

from exhume.activations import Activation
from exhume.research.theory.setting import Check, PowerLaw, Row, feature_kernel, feature_map, named, sphere_samples

_DIM, _SAMPLES = 32, 16
_ROWS = 2**18  # of one V, cut into as many V of p rows as it holds
_WIDTHS = tuple(2**power for power in range(8, 14))
_TOLERANCE = 0.1
# Eigenvalues: the fit begins where (1 - sqrt(n / p))^2, the factor by which few features lower them, is near 1.
_RATIOS = (0.5, 2, 8, 32, 64, 128, 256, 512)
_FIT_FROM = 32
_EIGEN_BLOCKS = 4  # of the largest p
_JOINT_DIMS = (32, 64, 128, 256)
_JOINT_DRAWS = 4
_POSITIVE = 1e-6  # an eigenvalue of K below this counts as zero


def _grams(features: Tensor, width: int) -> Tensor:
    """Phi Phi^T of every block of p columns of the features (n, P): (blocks, n, n)."""
    blocks = features.reshape(len(features), -1, width).transpose(0, 1)
    return blocks @ blocks.transpose(1, 2)


def concentration(activation: str | Activation = "relu", seed: int = 0) -> Check:
    """The deviation of phi(x).phi(x')/p from K falls as p^(-1/2).

    Root mean square over all pairs of samples, a sample with itself included, and over all blocks of V.
    """
    act = named(activation)
    inputs = sphere_samples(_SAMPLES, _DIM, seed, "kernel")
    mean = feature_kernel(act, inputs @ inputs.T / _DIM)  # (n, n)
    features = feature_map(_ROWS, _DIM, act, seed, "kernel").forward(inputs)  # (n, P)
    deviations = [float((_grams(features, p) / p - mean).square().mean().sqrt()) for p in _WIDTHS]
    return PowerLaw(_WIDTHS, deviations, exponent=-0.5, tolerance=_TOLERANCE).check(
        f"kernel concentration, {act.name}",
        f"phi(x).phi(x')/p deviates from its mean K by about p^(-1/2); d = {_DIM}, n = {_SAMPLES}.",
        ("p", "draws of V", "deviation", "times sqrt(p)"),
        [(p, _ROWS // p, value, value * p**0.5) for p, value in zip(_WIDTHS, deviations, strict=True)],
    )


def smallest_eigenvalue(activation: str | Activation = "relu", seed: int = 0, num_samples: int = _SAMPLES) -> Check:
    """lambda_min(Phi Phi^T) = Omega(p), Eq. (14): for given samples it grows as p, towards p lambda_min(K).

    Mean over the blocks of one V. Passes if also lambda_min(K) is positive and lambda_min / p comes to half of it.
    """
    act, n = named(activation), num_samples
    inputs = sphere_samples(n, _DIM, seed, "eigenvalue")
    limit = float(torch.linalg.eigvalsh(feature_kernel(act, inputs @ inputs.T / _DIM))[0])
    widths = [int(ratio * n) for ratio in _RATIOS]
    features = feature_map(_EIGEN_BLOCKS * widths[-1], _DIM, act, seed, "eigenvalue").forward(inputs)
    smallest = []
    for p in widths:
        usable = features.shape[1] // p * p
        values = torch.linalg.eigvalsh(_grams(features[:, :usable], p))[:, 0]
        smallest.append(max(float(values.mean()), 0.0))  # below p = n rounding alone, of either sign
    rows: list[Row] = [
        (p, ratio, value, value / p, ratio >= _FIT_FROM)
        for p, ratio, value in zip(widths, _RATIOS, smallest, strict=True)
    ]
    first = _RATIOS.index(_FIT_FROM)
    return PowerLaw(widths[first:], smallest[first:], exponent=1.0, tolerance=_TOLERANCE).check(
        f"smallest eigenvalue, {act.name}, given samples",
        f"lambda_min(Phi Phi^T) grows as p, lambda_min/p towards lambda_min(K) = {limit:.4g}; d = {_DIM}, n = {n}.",
        ("p", "p/n", "lambda_min", "lambda_min/p", "fitted"),
        rows,
        also=limit > _POSITIVE and smallest[-1] / widths[-1] > limit / 2.0,
    )


def smallest_eigenvalue_jointly(activation: str | Activation = "relu", seed: int = 0) -> Check:
    """Eq. (14) with n = d growing along with p: the constant in Omega(p) depends on neither. Mean over a few draws."""
    act = named(activation)
    widths = [_FIT_FROM * d for d in _JOINT_DIMS]
    smallest = []
    for d, p in zip(_JOINT_DIMS, widths, strict=True):
        values = []
        for draw in range(_JOINT_DRAWS):
            inputs = sphere_samples(d, d, seed, f"jointly {d} {draw}")
            features = feature_map(p, d, act, seed, f"jointly {d} {draw}").forward(inputs)
            values.append(float(torch.linalg.eigvalsh(features @ features.T)[0]))
        smallest.append(max(sum(values) / _JOINT_DRAWS, 0.0))
    return PowerLaw(widths, smallest, exponent=1.0, tolerance=_TOLERANCE).check(
        f"smallest eigenvalue, {act.name}, n = d",
        f"lambda_min(Phi Phi^T) grows as p = {_FIT_FROM} n while n = d grows too.",
        ("n = d", "p", "lambda_min", "lambda_min/p"),
        [(d, p, value, value / p) for d, p, value in zip(_JOINT_DIMS, widths, smallest, strict=True)],
        also=min(value / p for value, p in zip(smallest, widths, strict=True)) > _POSITIVE,
    )
