"""The replay equation: residual, Jacobian and normal system are those of dense ones, by finite differences.

It has no coefficients, so that the contract of equations, a dense least-squares fit, does not apply to it.
"""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from exhume import Recipe
from exhume.equation.norms import FixedNorm, FreeNorm
from exhume.equation.replay import Jumps, ReplayEquation
from exhume.solvers import StoppingRule, levenberg_marquardt
from exhume.training.simulation import Simulation, Unknowns

SAMPLES, DIM, CLASSES = 3, 4, 2
STEP = 1e-6
Y = functional.one_hot(torch.arange(SAMPLES) % CLASSES, CLASSES).double()


def normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


TRUTH = normal(SAMPLES, DIM, seed=0)


def equation(optimiser="adam", activation=nn.GELU, **options):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(DIM, 9), activation(), nn.Linear(9, CLASSES)).double()
    initial = {name: each.detach() for name, each in module.named_parameters()}
    recipe = Recipe(optimiser=optimiser, learning_rate=0.02, steps=6, weight_decay=0.1)
    simulation = Simulation(module, initial, recipe, (DIM,), Y)
    return ReplayEquation(simulation, simulation.run(Unknowns.of(TRUTH)).weights, SAMPLES, **options)


JUMPS = Jumps.between(normal(5, 63 + 2, seed=7))
BASIS = torch.linalg.qr(TRUTH.T)[0].T  # (3, 4): a subspace that holds the samples
CASES = {
    "adam": lambda: (equation(), normal(SAMPLES, DIM, seed=1)),
    "weighted": lambda: (equation(weights=normal(63 + 2, seed=3).abs()), normal(SAMPLES, DIM, seed=1)),
    "weighted, without jumps": lambda: (
        equation(weights=normal(63 + 2, seed=3).abs(), jumps=JUMPS),
        normal(SAMPLES, DIM, seed=1),
    ),
    "sgd, rate and decay fitted": lambda: (
        equation("sgd", fitted=(True, True)),
        torch.cat([normal(SAMPLES, DIM, seed=1), torch.tensor([[0.3, -0.2, 0.0, 0.0]]).double()]),
    ),
    "in a subspace": lambda: (equation(basis=BASIS), normal(SAMPLES, SAMPLES, seed=1)),
    "smooth": lambda: (equation(activation=nn.ReLU, sharpness=(3.0, 3.0)), normal(SAMPLES, DIM, seed=1)),
}


@pytest.fixture(params=sorted(CASES))
def case(request):
    return CASES[request.param]()


def dense_jacobian(found, rows):
    steps = STEP * torch.eye(rows.numel(), dtype=torch.float64).reshape(-1, *rows.shape)
    return torch.stack(
        [(found.at(rows - step).residual - found.at(rows + step).residual) / (2 * STEP) for step in steps], 1
    )


def test_the_residual_vanishes_at_the_samples_and_is_relative_to_the_displacement():
    found = equation()
    assert found.at(TRUTH).loss < 1e-28
    still = found.at_end(TRUTH, replace(found.at(TRUTH).end, weights=found.simulation.start))
    assert still.loss == pytest.approx(1.0)


def test_jacobian_and_adjoint_are_those_of_finite_differences(case):
    found, rows = case
    dense, point = dense_jacobian(found, rows), found.at(rows)
    units = torch.eye(rows.numel(), dtype=torch.float64).reshape(-1, *rows.shape)
    products = torch.stack([found.jacobian(point, unit) for unit in units], 1)
    torch.testing.assert_close(products, dense, atol=1e-6, rtol=1e-5)
    cotangent = normal(len(dense), seed=4)
    torch.testing.assert_close(found.adjoint(point, cotangent).flatten(), products.T @ cotangent, atol=1e-9, rtol=1e-8)


@pytest.mark.parametrize("norms", [FreeNorm(1.0), FixedNorm(1.0)])
def test_the_normal_system_is_that_of_the_jacobian(case, norms):
    found, rows = case
    point = found.at(rows)
    system = found.normal_system(point, 0.1, norms)
    along = norms.project_tangent(rows, normal(*rows.shape, seed=5), SAMPLES)
    image = norms.project_tangent(rows, found.adjoint(point, found.jacobian(point, along)), SAMPLES)
    torch.testing.assert_close(system.apply(along), image + system.ridge * along, atol=1e-9, rtol=1e-8)
    gradient = norms.project_tangent(rows, found.adjoint(point, point.residual), SAMPLES)
    torch.testing.assert_close(system.rhs, gradient)
    assert bool((system.ridge > 0).all())


def test_weights_favour_coordinates_with_large_gradients():
    found = equation()
    point = found.at(TRUTH + 0.1)
    weighted, again = found.weighted_by(point, 1.0)
    size = point.end.gradient_size
    parts = [part / (part + part.square().mean().sqrt()) for part in size.split([36, 9, 18, 2])]
    torch.testing.assert_close(weighted.weights, torch.cat(parts))
    assert again.loss == pytest.approx(weighted.at(TRUTH + 0.1).loss)
    plain = equation("sgd")
    assert plain.weighted_by(plain.at(TRUTH), 1.0)[0] is plain


def test_gauss_newton_finds_samples_and_the_learning_rate():
    found = equation("sgd", fitted=(True, False))
    start = torch.cat([TRUTH + 0.05 * normal(SAMPLES, DIM, seed=6), torch.full((1, DIM), 0.2).double()])
    end = levenberg_marquardt(found, start, FreeNorm(1.0), StoppingRule(40, 1e-9)).point
    torch.testing.assert_close(end.samples, TRUTH, atol=1e-5, rtol=1e-5)
    assert abs(float(end.rows[-1, 0])) < 1e-5


def test_a_direction_counts_less_by_as_much_as_training_jumps_further_along_it():
    jump, other = torch.linalg.qr(normal(65, 2, seed=8))[0].T
    ends = 60 * normal(12, 1, seed=9) * jump + normal(12, 65, seed=10)
    jumps = Jumps.between(ends)
    sizes = torch.linalg.svdvals(ends - ends.mean(0))[:-1]
    strongest = jumps.directions[:, 0]
    assert abs(float(strongest @ jump)) > 0.99
    torch.testing.assert_close(jumps.reduce(strongest), strongest * sizes[-1] / sizes[0])
    off = other - jumps.directions @ (jumps.directions.T @ other)
    torch.testing.assert_close(jumps.reduce(off), off)


def test_jumps_are_those_of_trainings_on_samples_nearby():
    found, rows = equation("sgd", nn.ReLU), TRUTH + 0.1
    point = found.at(rows)
    less, again = found.without_jumps(point, 4, 0.2, torch.Generator().manual_seed(0))
    assert less.jumps.directions.shape == (65, 3)
    assert torch.equal(again.rows, rows)
    generator, ends = torch.Generator().manual_seed(0), []
    for _ in range(4):
        drawn = torch.randn(rows.shape, generator=generator).double()
        near = rows + 0.2 * drawn / drawn.norm(dim=1, keepdim=True) * rows.norm(dim=1, keepdim=True)
        ends.append(found.trained - found.simulation.run(Unknowns.of(near)).weights)
    expected = Jumps.between(torch.stack(ends)).reduce(point.residual)
    torch.testing.assert_close(again.residual, expected)
