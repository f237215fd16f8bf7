"""The samples' signs, from the linear or constant part that was fitted beside them.

relu, gelu and softplus are z/2 plus an even function, sigmoid is 1/2 plus an odd one, tanh is odd, abs even. With that
part free, the equation leaves every sample's sign open; the fitted part then decides: W = sum_i s_i a_i x_i / 2 is d
equations for n signs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from exhume.activations import Activation
from exhume.attacks._base.tuning import TrustTuning, Tuning
from exhume.equation.span import Span, SpanPoint
from exhume.features import OneLayerFeatures


@dataclass(frozen=True)
class Signs:
    """Samples with their signs chosen, and whether they were decided."""

    samples: torch.Tensor
    determined: bool
    note: str


def choose_signs(
    equation: Span, point: SpanPoint, activation: Activation, tuning: Tuning, known: torch.Tensor | None = None
) -> Signs:
    """Decides the samples' signs from the nuisance that was fitted beside them.

    Args:
        equation: with its nuisance free.
        point: the fit.
        activation: the model's own; `equation` may have worked with its even part, abs for relu.
        tuning: of the attack.
        known: (m, d) samples whose features are fixed in the equation.
    """
    kind = activation.reflection
    if kind in ("even", "odd"):
        word = "an even" if kind == "even" else "an odd"
        return Signs(point.samples, False, f"Signs: {activation.name} is {word} function, which hides them for good.")
    free = {"linear": equation.nuisance.linear, "constant": equation.nuisance.constant}
    if not free.get(kind, False):
        return Signs(point.samples, True, "Signs: solved for together with the samples.")
    if kind == "linear":
        solved = _from_linear_part(equation, point, activation, tuning, known)
    else:
        solved = _from_constant_part(equation, point, activation, tuning)
    if solved is None:
        return Signs(point.samples, False, "Signs: more samples than equations to decide them.")
    samples = torch.sign(solved).to(point.samples)[:, None] * point.samples
    source = "linear" if kind == "linear" else "constant"
    if not _is_clear(solved, tuning.trust):
        return Signs(samples, False, f"Signs: the {source} part of the weights does not decide all of them.")
    return Signs(samples, True, f"Signs: decided by the {source} part of the weights.")


def _linear_part(equation: Span, point: SpanPoint) -> torch.Tensor:
    """W (k, d) fitted beside the samples."""
    if equation.num_linear:
        return point.rows[point.num_samples :].double()
    assert point.nuisance_coefficients is not None
    return point.nuisance_coefficients[:, : equation.features.input_dim].double()


def _from_linear_part(
    equation: Span, point: SpanPoint, activation: Activation, tuning: Tuning, known: torch.Tensor | None
) -> torch.Tensor | None:
    """Least squares for s in W + base = h sum_i s_i a_i x_i, (n,); base is the linear part that act itself brings."""
    samples, weights = point.samples.double(), point.coefficients.double()
    z = torch.ones((1,), dtype=torch.float64)
    half = float(activation.value(z) - activation.value(-z)) / 2
    assert isinstance(equation.features, OneLayerFeatures)
    if equation.features.activation.parity == "even":  # abs stands for relu, with coefficients a_i / 2
        scale, base = 1.0, torch.zeros_like(_linear_part(equation, point))
        if known is not None:  # they stand in W too, with the signs that they have
            assert point.nuisance_coefficients is not None
            base = -point.nuisance_coefficients[:, -len(known) :].double() @ known.to(samples)
    else:
        scale, base = half, half * weights.T @ samples
    rhs = (_linear_part(equation, point) + base).reshape(-1)  # (k d,)
    system = torch.einsum("nk,nd->kdn", weights, samples).reshape(-1, samples.shape[0]) * scale
    if system.shape[1] > system.shape[0]:
        return _best_pattern(system, rhs, tuning)
    solved = torch.linalg.lstsq(system, rhs[:, None]).solution[:, 0]
    if _is_clear(solved, tuning.trust):
        return solved
    # Samples that depend on each other, as those of a centred training set do, leave a direction of s open; that its
    # entries are -1 or +1 still decides.
    pattern = _best_pattern(system, rhs, tuning)
    return solved if pattern is None else pattern


def _is_clear(solved: torch.Tensor, tuning: TrustTuning) -> bool:
    """Whether every sign that was solved for is near -1 or +1."""
    return bool(((solved.abs() - 1).abs() < tuning.clear).all())


def _best_pattern(system: torch.Tensor, rhs: torch.Tensor, tuning: Tuning) -> torch.Tensor | None:
    """Signs s (n,) of system s = rhs, by trying them all; None if there are too many, or none fits clearly best."""
    count = system.shape[1]
    if count > tuning.equation.most_patterns:
        return None
    places, best, rest = torch.arange(count), (math.inf, torch.empty(0)), math.inf
    for codes in torch.arange(2**count).split(tuning.trust.patterns_at_a_time):
        patterns = (((codes[:, None] >> places) & 1) * 2 - 1).to(system)
        misfits = torch.linalg.vector_norm(patterns @ system.T - rhs, dim=1)
        least = torch.topk(misfits, min(2, len(misfits)), largest=False)
        for misfit, index in zip(least.values.tolist(), least.indices.tolist(), strict=True):
            if misfit < best[0]:
                rest, best = best[0], (misfit, patterns[index])
            else:
                rest = min(rest, misfit)
    return best[1] if tuning.trust.better * best[0] < rest else None


def _from_constant_part(
    equation: Span, point: SpanPoint, activation: Activation, tuning: Tuning
) -> torch.Tensor | None:
    """Signs s of c0 + h sum_i a_i = h sum_i s_i a_i: by least squares, or by trying all patterns of few samples."""
    assert point.nuisance_coefficients is not None
    weights = point.coefficients.double()  # (n, k)
    z = torch.ones((1,), dtype=torch.float64)
    half = float(activation.value(z) + activation.value(-z)) / 2
    constant = -1 - (0 if equation.fixed is None else equation.fixed.shape[0])  # known samples stand behind it
    rhs = point.nuisance_coefficients[:, constant].double() + half * weights.sum(0)  # (k,)
    count, outputs = weights.shape
    if count <= outputs:
        return torch.linalg.lstsq(half * weights.T, rhs[:, None]).solution[:, 0]
    return _best_pattern(half * weights.T, rhs, tuning)
