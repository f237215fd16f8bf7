"""The true samples solve the equation that the exact attack searches in, for every variant of that equation."""

import math

import pytest
import torch

from exhume import activations, data
from exhume.attacks._search.working_equation import working_equation
from exhume.equation.nuisance import Nuisance
from exhume.features import DenseMatrix, FirstLayerMap
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target
from exhume.victims import RandomFeatures

SAMPLES = 3


def attacked(problem_of, activation, dim, width, outputs=1, known=0):
    """A problem, and the training data behind it, the known samples last."""
    training = data.load("sphere", dim=dim, samples=SAMPLES + known, seed=0)
    labels = training.labels if outputs == 1 else torch.eye(SAMPLES + known)[:, :outputs]
    victim = RandomFeatures(num_features=width, activation=activation, dtype="float64").fit(training.inputs, labels)
    knowledge = Knowledge(samples=training.inputs[SAMPLES:]) if known else None
    return problem_of(victim.target(knowledge=knowledge), SAMPLES), training


def true_rows(span, problem, training):
    """True samples, and W below them where it is an unknown: relu(z) = |z| / 2 + z / 2 gives it."""
    samples = training.inputs.double()
    if not span.num_linear:
        return samples[:SAMPLES]
    linear = torch.zeros((span.num_outputs, samples.shape[1]), dtype=torch.float64)
    if span.features.activation != problem.features.activation:
        features = problem.target.features.forward(samples)
        weights = torch.linalg.lstsq(features.T, problem.target.displacement.T).solution  # (n, k)
        linear = 0.5 * weights.T @ samples
    return torch.cat([samples[:SAMPLES], linear])


@pytest.mark.parametrize("known", [0, 2])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("dim", [8, 40])
@pytest.mark.parametrize("activation", activations.names())
def test_true_samples_solve_it(problem_of, activation, dim, outputs, known):
    problem, training = attacked(problem_of, activation, dim, 12 * dim * SAMPLES, outputs, known)
    span = working_equation(problem, SAMPLES, torch.float64)
    assert span.num_linear == (outputs if span.nuisance.linear and dim == 40 else 0)
    rows = true_rows(span, problem, training)
    assert math.sqrt(span.at(rows).loss) < 1e-7
    wrong = rows.clone()
    wrong[0] = rows[0].roll(1)
    assert math.sqrt(span.at(wrong).loss) > 1e-2


# Activation, inputs, width -> activation searched with, and what is free.
CHOICES = [
    ("relu", 8, 300, "abs", Nuisance(linear=True)),
    ("relu", 40, 900, "abs", Nuisance(linear=True, joint=True)),
    ("relu", 8, 27, "relu", Nuisance()),  # the linear part would take too many of the equations
    ("abs", 8, 300, "abs", Nuisance()),
    ("tanh", 8, 300, "tanh", Nuisance(linear=True)),
    ("gelu", 8, 300, "gelu", Nuisance(linear=True, constant=True)),
    ("gelu", 40, 900, "gelu", Nuisance(linear=True, constant=True, joint=True)),
    ("softplus", 8, 300, "softplus", Nuisance(linear=True, constant=True)),
    ("softplus", 8, 30, "softplus", Nuisance(constant=True)),
]


@pytest.mark.parametrize(("activation", "dim", "width", "searched", "free"), CHOICES)
def test_what_is_free_follows_from_activation_and_sizes(problem_of, activation, dim, width, searched, free):
    problem, _ = attacked(problem_of, activation, dim, width)
    span = working_equation(problem, SAMPLES)
    assert span.features.activation.name == searched
    assert span.nuisance == free
    assert span.features.dtype == torch.float32


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_features_with_a_bias_are_searched_as_they_are(problem_of, activation):
    """act(V x + b) = |V x + b| / 2 + (V x + b) / 2 has a linear part that the columns of V do not span."""
    generator = torch.Generator().manual_seed(0)
    matrix, offset, samples = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((300, 8), (300,), (SAMPLES, 8))
    )
    features = FirstLayerMap(DenseMatrix(matrix), activation, torch.float64, offset=offset)
    theta = torch.tensor([[1.0, -1.2, 0.8]]).double() @ features.forward(samples)
    span = working_equation(problem_of(Target(features, theta), SAMPLES), SAMPLES, torch.float64)
    assert (span.features.activation.name, span.nuisance) == (activation, Nuisance())
    assert math.sqrt(span.at(samples).loss) < 1e-7
