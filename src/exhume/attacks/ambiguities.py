"""What the span leaves open: signs, norms and labels, and what decides them.

An activation reflects if act(-z) differs from act(z) or -act(z) only by nuisance: relu, gelu and softplus are z/2 plus
an even function, sigmoid is 1/2 plus an odd one, tanh is odd, abs even. With the nuisance free, every sample's sign is
open; the fitted nuisance then decides: the linear part W = sum_i s_i a_i x_i / 2 is d equations for n signs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from exhume.activations import Activation
from exhume.features import RowFeatureMap, Symmetry
from exhume.knowledge import Knowledge
from exhume.span import Point, Span

Reflection = Literal["even", "odd", "linear", "constant", "none"]

# Samples up to which all patterns of their signs are tried where only a few equations decide, so many at a time.
MOST_PATTERNS, _PATTERNS_AT_A_TIME = 22, 2**17
# How many times better than any other a pattern must fit to be believed.
_BETTER = 30.0
# A sign solved for by least squares must be this near to -1 or +1, or it was not decided.
_CLEAR = 0.25
# How far outputs may be from a one-hot vector and still be taken for one.
_MISFIT = 0.05


def reflection(activation: Activation) -> Reflection:
    """How the activation behaves under z -> -z: even or odd, or so up to a linear or constant part."""
    if activation.parity != "none":
        return activation.parity
    z = torch.linspace(0.1, 5.0, 50, dtype=torch.float64)
    difference = activation.value(z) - activation.value(-z)
    total = activation.value(z) + activation.value(-z)
    if float((difference / z).std()) < 1e-9:
        return "linear"
    if float(total.std()) < 1e-9:
        return "constant"
    return "none"


@dataclass(frozen=True)
class Signs:
    """Samples with their signs chosen, and whether they were decided."""

    samples: torch.Tensor
    determined: bool
    note: str


def choose_signs(span: Span, point: Point, activation: Activation, known: torch.Tensor | None = None) -> Signs:
    """Decides the samples' signs from the nuisance that was fitted beside them.

    Args:
        span: the equation with its nuisance free.
        point: the fit.
        activation: the model's own; `span` may have worked with its even part, abs for relu.
        known: (m, d) samples whose features are fixed in the equation.
    """
    kind = reflection(activation)
    if kind in ("even", "odd"):
        word = "an even" if kind == "even" else "an odd"
        return Signs(point.samples, False, f"Signs: {activation.name} is {word} function, which hides them for good.")
    free = {"linear": span.nuisance.linear, "constant": span.nuisance.constant}
    if not free.get(kind, False):
        return Signs(point.samples, True, "Signs: solved for together with the samples.")
    if kind == "linear":
        solved = _from_linear_part(span, point, activation, known)
    else:
        solved = _from_constant_part(span, point, activation)
    if solved is None:
        return Signs(point.samples, False, "Signs: more samples than equations to decide them.")
    samples = torch.sign(solved).to(point.samples)[:, None] * point.samples
    source = "linear" if kind == "linear" else "constant"
    if not _is_clear(solved):
        return Signs(samples, False, f"Signs: the {source} part of the weights does not decide all of them.")
    return Signs(samples, True, f"Signs: decided by the {source} part of the weights.")


def _linear_part(span: Span, point: Point) -> torch.Tensor:
    """W (k, d) fitted beside the samples."""
    if span.num_linear:
        return point.rows[point.num_samples :].double()
    assert point.nuisance is not None
    return point.nuisance[:, : span.features.input_dim].double()


def _from_linear_part(
    span: Span, point: Point, activation: Activation, known: torch.Tensor | None
) -> torch.Tensor | None:
    """Least squares for s in W + base = h sum_i s_i a_i x_i, (n,); base is the linear part that act itself brings."""
    samples, weights = point.samples.double(), point.coefficients.double()
    z = torch.ones((1,), dtype=torch.float64)
    half = float(activation.value(z) - activation.value(-z)) / 2
    assert isinstance(span.features, RowFeatureMap)
    if span.features.activation.parity == "even":  # abs stands for relu, with coefficients a_i / 2
        scale, base = 1.0, torch.zeros_like(_linear_part(span, point))
        if known is not None:  # they stand in W too, with the signs that they have
            assert point.nuisance is not None
            base = -point.nuisance[:, -len(known) :].double() @ known.to(samples)
    else:
        scale, base = half, half * weights.T @ samples
    goal = (_linear_part(span, point) + base).reshape(-1)  # (k d,)
    system = torch.einsum("nk,nd->kdn", weights, samples).reshape(-1, samples.shape[0]) * scale
    if system.shape[1] > system.shape[0]:
        return _best_pattern(system, goal)
    solved = torch.linalg.lstsq(system, goal[:, None]).solution[:, 0]
    if _is_clear(solved):
        return solved
    # Samples that depend on each other, as those of a centred training set do, leave a direction of s open; that its
    # entries are -1 or +1 still decides.
    pattern = _best_pattern(system, goal)
    return solved if pattern is None else pattern


def _is_clear(solved: torch.Tensor) -> bool:
    """Whether every sign that was solved for is near -1 or +1."""
    return bool(((solved.abs() - 1).abs() < _CLEAR).all())


def _best_pattern(system: torch.Tensor, goal: torch.Tensor) -> torch.Tensor | None:
    """Signs s (n,) of system s = goal, by trying them all; None if there are too many, or none fits clearly best."""
    count = system.shape[1]
    if count > MOST_PATTERNS:
        return None
    places, best, rest = torch.arange(count), (math.inf, torch.empty(0)), math.inf
    for codes in torch.arange(2**count).split(_PATTERNS_AT_A_TIME):
        patterns = (((codes[:, None] >> places) & 1) * 2 - 1).to(system)
        misfits = torch.linalg.vector_norm(patterns @ system.T - goal, dim=1)
        least = torch.topk(misfits, min(2, len(misfits)), largest=False)
        for misfit, index in zip(least.values.tolist(), least.indices.tolist(), strict=True):
            if misfit < best[0]:
                rest, best = best[0], (misfit, patterns[index])
            else:
                rest = min(rest, misfit)
    return best[1] if _BETTER * best[0] < rest else None


def _from_constant_part(span: Span, point: Point, activation: Activation) -> torch.Tensor | None:
    """Signs s of c0 + h sum_i a_i = h sum_i s_i a_i: by least squares, or by trying all patterns of few samples."""
    assert point.nuisance is not None
    weights = point.coefficients.double()  # (n, k)
    z = torch.ones((1,), dtype=torch.float64)
    half = float(activation.value(z) + activation.value(-z)) / 2
    constant = -1 - (0 if span.fixed is None else span.fixed.shape[0])  # known samples stand behind it
    goal = point.nuisance[:, constant].double() + half * weights.sum(0)  # (k,)
    count, outputs = weights.shape
    if count <= outputs:
        return torch.linalg.lstsq(half * weights.T, goal[:, None]).solution[:, 0]
    return _best_pattern(half * weights.T, goal)


@dataclass(frozen=True)
class Labelled:
    """Samples at their norms, with labels, and what is known of them."""

    samples: torch.Tensor
    labels: torch.Tensor
    norms_determined: bool
    note: str


def norms_and_labels(
    samples: torch.Tensor,
    outputs: torch.Tensor,
    symmetry: Symmetry,
    knowledge: Knowledge,
    credible: bool = True,
) -> Labelled:
    """Reads norms and labels off the model's own outputs on the recovered samples.

    An interpolating model gives y = f(x). If the activation is homogeneous, f(r u) = r f(u), and a known alphabet of
    labels gives r back: r = 1 / |f(u)| for labels -1 and +1, 1 / max f(u) for one-hot ones.

    Args:
        samples: (n, d), on the sphere where the norm is open.
        outputs: f at the samples, (n, k).
        symmetry: of the model's features.
        knowledge: what is known of norms and labels.
        credible: whether the samples explain the weights. If not, they are not where the model interpolates, and its
            outputs there say nothing of norms.
    """
    labels, alphabet = outputs[:, 0] if outputs.shape[1] == 1 else outputs, knowledge.label_alphabet
    if knowledge.norm is not None:
        size = knowledge.norm / torch.linalg.vector_norm(samples, dim=1)
        scaled = labels if symmetry.identifies_norm else labels * (size if labels.ndim == 1 else size[:, None])
        return Labelled(samples * size[:, None], scaled, True, "Norms: known. Labels: the model's outputs.")
    if symmetry.identifies_norm:
        return Labelled(samples, labels, True, "Norms: the features fix them. Labels: the model's outputs.")
    if alphabet is None or not credible:
        note = "Norms: undetermined, the samples have norm sqrt(d). Labels: the model's outputs at that norm."
        return Labelled(samples, labels, False, note)
    if alphabet == "signs":
        size, named = labels.abs(), labels.sign()
    else:
        size, named = outputs.amax(1), torch.nn.functional.one_hot(outputs.argmax(1), outputs.shape[1]).to(outputs)
    misfit = 0.0 if alphabet == "signs" else float((outputs / size[:, None] - named).abs().max())
    if not bool((size > 0).all()) or misfit > _MISFIT:
        return Labelled(samples, labels, False, "Norms: undetermined, the model's outputs do not fit the known labels.")
    note = f"Norms and labels: from the known labels ({alphabet}), if the model interpolates them."
    return Labelled(samples / size[:, None], named, True, note)
