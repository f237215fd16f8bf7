"""The equation in which samples are searched for: easier than the model's own, and with the same samples.

relu is z/2 plus |z|/2: with the linear part free, abs takes its place, and every sample's sign is open. The fitted
linear or constant part decides the signs afterwards (`_finish.signs`).
"""

from __future__ import annotations

import torch

from exhume import activations
from exhume.activations import Activation
from exhume.attacks._base.problem import Problem
from exhume.equation.nuisance import Nuisance
from exhume.equation.span import Span
from exhume.features import OneLayerFeatures


def working_equation(problem: Problem, count: int, dtype: torch.dtype = torch.float32) -> Span:
    """The equation that is easiest to search: abs for relu, linear and constant parts free where it pays."""
    features, tuning = problem.one_layer.with_dtype(dtype), problem.tuning.equation
    activation = features.activation
    equations, unknowns = problem.equation_count(count)
    linear_numbers = problem.target.num_outputs * features.input_dim
    plain = features.has_offset  # act(V x + b) has no such symmetries
    # With many more samples than the linear part has numbers, it could not decide their signs afterwards.
    decides = count <= max(tuning.most_patterns, linear_numbers)
    enough = equations - linear_numbers > tuning.equations_left * unknowns and decides
    linear = enough and activation.parity != "even" and not plain
    if linear and activation == activations.get("relu"):
        features = features.with_activation("abs")
    mean = abs(float(activation.hermite(0)[0]))
    constant = not plain and activation.homogeneity is None and mean > tuning.hermite_zero
    nuisance = Nuisance(linear, constant, joint=linear and features.input_dim >= tuning.joint_from * count)
    ridge = tuning.ridge if dtype == torch.float32 else tuning.ridge_double
    return problem.equation(features, nuisance=nuisance, ridge=ridge)


def choices(equation: Span, activation: Activation, double: bool) -> str:
    """What was chosen for this target, in a sentence."""
    assert isinstance(equation.features, OneLayerFeatures)
    parts = []
    if equation.nuisance.linear:
        how = "solved for jointly" if equation.nuisance.joint else "projected out"
        parts.append(f"linear part {how}")
    if equation.nuisance.constant:
        parts.append("constant part projected out")
    if equation.features.activation.name != activation.name:
        parts.append(f"searched with {equation.features.activation.name} for {activation.name}")
    parts.append(f"{activation.reflection} reflection, polished in {'float64' if double else 'float32'}")
    return f"Choices: {', '.join(parts)}."
