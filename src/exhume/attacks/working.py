"""The equation in which the exact attack searches: easier than the model's own, and with the same samples."""

from __future__ import annotations

import torch

from exhume import activations
from exhume.activations import Activation
from exhume.attacks.ambiguities import MOST_PATTERNS, reflection
from exhume.attacks.base import Problem, counted
from exhume.features import RowFeatureMap
from exhume.nuisance import Nuisance
from exhume.span import Span

# Inputs per sample below which the linear part is projected out exactly: its d x d matrix costs d/n passes a step
# where the step itself costs about 20. From here on, the linear part is solved for jointly.
_PROJECT_DIM_PER_SAMPLE = 10
# The free linear part costs k d equations: it is used where this many times the unknowns are left.
_EQUATIONS_LEFT = 1.05
RIDGE = 1e-6
HERMITE_ZERO = 1e-6


def working_span(problem: Problem, count: int, dtype: torch.dtype = torch.float32) -> Span:
    """The equation that is easiest to search: abs for relu, linear and constant parts free where it pays."""
    features = problem.features.with_dtype(dtype)
    activation = features.activation
    equations, unknowns = counted(problem.target, count)
    left = equations - problem.target.num_outputs * features.input_dim
    plain = features.has_offset  # act(V x + b) has no such symmetries to take out
    # With many more samples than the linear part has numbers, it could not tell their signs afterwards.
    decides = count <= max(MOST_PATTERNS, problem.target.num_outputs * features.input_dim)
    enough = left > _EQUATIONS_LEFT * unknowns and decides
    linear = enough and activation.parity != "even" and not plain
    if linear and activation == activations.get("relu"):
        features = features.with_activation("abs")
    constant = not plain and activation.homogeneity is None and abs(float(activation.hermite(0)[0])) > HERMITE_ZERO
    nuisance = Nuisance(linear, constant, joint=linear and features.input_dim >= _PROJECT_DIM_PER_SAMPLE * count)
    ridge = RIDGE if dtype == torch.float32 else 1e-13
    return problem.span(features, nuisance=nuisance, ridge=ridge)


def choices(span: Span, activation: Activation, double: bool) -> str:
    """What was chosen for this target, in a sentence."""
    assert isinstance(span.features, RowFeatureMap)
    parts = []
    if span.nuisance.linear:
        how = "solved for jointly" if span.nuisance.joint else "projected out"
        parts.append(f"linear part {how}")
    if span.nuisance.constant:
        parts.append("constant part projected out")
    if span.features.activation.name != activation.name:
        parts.append(f"searched with {span.features.activation.name} for {activation.name}")
    parts.append(f"{reflection(activation)} reflection, polished in {'float64' if double else 'float32'}")
    return f"Choices: {', '.join(parts)}."
