"""Levenberg-Marquardt on small problems with known minima, and its step against a dense solve."""

import pytest
import torch

from exhume.equation.normal_system import DenseNormalSystem
from exhume.equation.nuisance import Nuisance
from exhume.equation.protocol import Point
from exhume.equation.span import Span
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.solvers import (
    CGOptions,
    Damping,
    FixedNorm,
    FreeNorm,
    LMState,
    StoppingRule,
    gauss_newton_step,
    levenberg_marquardt,
    lm_step,
)

DIM, SAMPLES, WIDTH = 6, 4, 120
EXACT = CGOptions(300, 1e-12)
SPHERE, FREE = FixedNorm(DIM**0.5), FreeNorm(DIM**0.5)


class Residuals:
    """Any residual r(rows) as an equation with a dense Jacobian."""

    squared_norm = 1.0

    def __init__(self, residual):
        self._residual = residual
        self.tried = 0

    def at(self, rows):
        self.tried += 1
        residual = -self._residual(rows)  # what is left to explain
        return Point(rows, len(rows), torch.zeros(len(rows), 0), residual, float(residual.square().sum()))

    def normal_system(self, point, damping, norms):
        jacobian = torch.autograd.functional.jacobian(self._residual, point.rows)  # (e, n, d)
        return DenseNormalSystem(jacobian, point, damping, norms)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rosenbrock(rows):
    """Zero at (1, 1); on the sphere of radius sqrt(3) at (1, 1, +-1)."""
    x, y = rows[0, 0], rows[0, 1]
    return torch.stack([10 * (y - x**2), 1 - x])


def small_problem(nuisance=None, budget="1GB", outputs=1, off=0.2):
    """A span equation with true samples, and a candidate near them."""
    features = RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=0, memory_budget=budget), "abs", torch.float64)
    true = SPHERE.retract(normal(SAMPLES, DIM, seed=1))
    theta = normal(outputs, SAMPLES, seed=2) @ features.forward(true)
    span = Span(features, theta, nuisance)
    rows = SPHERE.retract(true + off * normal(SAMPLES, DIM, seed=3))
    return span, torch.cat([rows, span.first_linear()]) if span.num_linear else rows, true


@pytest.mark.parametrize("norms", [FREE, SPHERE])
@pytest.mark.parametrize("budget", ["1GB", 0], ids=["kept", "generated"])
@pytest.mark.parametrize("nuisance", [Nuisance(), Nuisance(linear=True), Nuisance(linear=True, joint=True)])
def test_a_step_solves_the_dense_normal_equations_and_predicts_its_fall(nuisance, budget, norms):
    span, rows, _ = small_problem(nuisance, budget, outputs=2)
    point, damping = span.at(rows), 0.05
    step, fall = gauss_newton_step(span, point, damping, norms, EXACT)

    units = torch.eye(rows.numel(), dtype=torch.float64).reshape(-1, *rows.shape)
    projected = [span.project(point, span.jacobian(point, unit)).flatten() for unit in units]
    jacobian = torch.stack(projected, 1)  # P J, (k p, rows d)
    added = torch.full(rows.shape, 1e-6 * WIDTH / DIM, dtype=torch.float64)  # of the rows of a linear part
    added[:SAMPLES] = damping * span.mean_normal(point).diagonal()[:, None]
    # Steps are taken within the tangent space: D = T z, with T an orthonormal basis of it.
    onto_tangent = torch.stack([norms.project_tangent(rows, unit, SAMPLES).flatten() for unit in units])
    values, vectors = torch.linalg.eigh(onto_tangent)
    basis = vectors[:, values > 0.5]
    system = basis.T @ (jacobian.T @ jacobian + torch.diag(added.flatten())) @ basis
    rhs = basis.T @ jacobian.T @ point.residual.flatten()
    expected = basis @ torch.linalg.solve(system, rhs)
    torch.testing.assert_close(step.flatten(), expected, rtol=0, atol=1e-5 * float(expected.abs().max()))
    rest = point.residual.flatten() - jacobian @ expected
    assert fall == pytest.approx(point.loss - float(rest.square().sum()) / span.squared_norm, rel=1e-5)


def test_a_linear_problem_is_solved_in_one_step_if_hardly_damped():
    matrix = normal(20, 2 * 3)
    truth = normal(2, 3, seed=1)
    equation = Residuals(lambda rows: matrix @ (rows - truth).flatten())
    start, damping = torch.zeros(2, 3).double(), Damping(1e-12, least=1e-12)
    end = levenberg_marquardt(equation, start, FREE, StoppingRule(10, 1e-6), cg=EXACT, damping=damping)
    assert end.steps == 1
    torch.testing.assert_close(end.point.rows, truth, atol=1e-6, rtol=0)


def test_damping_falls_by_five_a_step_where_the_model_is_right():
    matrix = normal(20, 3)
    equation = Residuals(lambda rows: matrix @ (rows[0] - 1))
    start = torch.zeros(1, 3).double()
    end = levenberg_marquardt(equation, start, FREE, StoppingRule(4, 0.0), cg=EXACT, damping=Damping(1.0))
    assert end.damping == pytest.approx(0.2**4)


@pytest.mark.parametrize(("start", "norms"), [((-1.2, 1.0), FREE), ((-1.0, 0.5, 1.3), FixedNorm(3**0.5))])
def test_a_curved_valley_is_followed_to_its_end_and_no_step_raises_the_loss(start, norms):
    rows = norms.retract(torch.tensor([start], dtype=torch.float64))
    equation = Residuals(rosenbrock)
    end = levenberg_marquardt(equation, rows, norms, StoppingRule(200, 1e-10), cg=EXACT)
    assert end.point.loss < 1e-20
    torch.testing.assert_close(end.point.rows.abs(), torch.ones_like(rows), atol=1e-9, rtol=0)
    assert end.steps < 60
    assert list(end.losses) == sorted(end.losses, reverse=True)


@pytest.mark.parametrize("nuisance", [Nuisance(), Nuisance(linear=True), Nuisance(linear=True, joint=True)])
@pytest.mark.parametrize("norms", [FREE, SPHERE])
def test_near_the_samples_the_residual_falls_to_rounding(nuisance, norms):
    span, rows, true = small_problem(nuisance, outputs=2)
    damping = Damping(least=1e-12)
    end = levenberg_marquardt(span, rows, norms, StoppingRule(60, 1e-12), cg=EXACT, damping=damping)
    point = end.point
    assert point.loss < 1e-20
    unit, other = (torch.nn.functional.normalize(each, dim=1) for each in (point.samples, true))
    torch.testing.assert_close((unit * other).sum(1), torch.ones(SAMPLES).double(), atol=1e-9, rtol=0)
    if norms is SPHERE:
        torch.testing.assert_close(point.samples.norm(dim=1), torch.full((SAMPLES,), SPHERE.radius).double())
    assert list(end.losses) == sorted(end.losses, reverse=True)
    assert end.steps < 30


def test_a_run_ends_after_the_steps_that_it_is_given():
    span, rows, _ = small_problem(off=1.0)
    end = levenberg_marquardt(span, rows, FREE, StoppingRule(3, 0.0))
    assert (end.steps, len(end.losses)) == (3, 4)


def test_a_run_ends_at_once_where_the_residual_is_good_enough():
    span, rows, _ = small_problem()
    end = levenberg_marquardt(span, rows, FREE, StoppingRule(50, 1.0))
    assert end.steps == 0
    assert torch.equal(end.point.rows, rows)


def test_a_run_ends_where_the_loss_no_longer_falls_enough():
    """At x^2 = -1, which has no solution, the loss falls to 1 and stays there."""
    equation = Residuals(lambda rows: rows[0] ** 2 + 1)
    start = torch.full((1, 1), 3.0, dtype=torch.float64)
    rule = StoppingRule(500, 0.0, window=4, max_left=0.9)
    end = levenberg_marquardt(equation, start, FREE, rule, cg=EXACT)
    assert 4 <= end.steps < 40
    assert end.losses[-1] > 0.9 * end.losses[-5]
    assert end.losses[-2] <= 0.9 * end.losses[-6] or len(end.losses) < 6


def test_a_run_ends_after_six_steps_in_a_row_that_do_not_help():
    """At a minimum that is no solution: the first rejections raise the damping, the sixth ends the run."""
    equation = Residuals(lambda rows: torch.stack([rows[0, 0], rows[0, 0] * 0 + 1]))
    end = levenberg_marquardt(equation, torch.zeros(1, 1).double(), FREE, StoppingRule(100, 0.0))
    assert (end.steps, end.rejections, equation.tried) == (6, 6, 7)
    assert end.damping == pytest.approx(1e-2 * 4 * 8 * 16 * 32 * 64 * 128)
    assert end.point.loss == 1


def test_the_callback_sees_accepted_steps_and_can_end_the_run():
    span, rows, _ = small_problem(off=1.0)
    seen = []

    def should_stop(point):
        seen.append(point.loss)
        return len(seen) == 3

    end = levenberg_marquardt(span, rows, FREE, StoppingRule(50, 0.0), should_stop=should_stop)
    assert len(seen) == 3
    assert seen[-1] == end.point.loss
    assert seen == sorted(seen, reverse=True)


def test_an_interrupted_run_goes_on_as_it_would_have():
    span, rows, _ = small_problem(off=1.0)
    whole = levenberg_marquardt(span, rows, SPHERE, StoppingRule(12, 0.0))
    half = levenberg_marquardt(span, rows, SPHERE, StoppingRule(5, 0.0))
    state = LMState(span.at(half.point.rows), half.damping, half.steps, half.losses, half.rejections)
    for _ in range(12 - half.steps):
        state = state if StoppingRule(12, 0.0).is_over(state) else lm_step(span, state, SPHERE)
    assert torch.equal(state.point.rows, whole.point.rows)
    assert (state.damping, state.steps, state.losses) == (whole.damping, whole.steps, whole.losses)


def test_norms_that_are_free_within_bounds_are_kept_in_them_and_only_those_of_samples():
    rows = torch.tensor([[0.1, 0.0], [0.0, 2.0], [30.0, 40.0], [300.0, 400.0]])
    bounded = FreeNorm(2.0, 0.5, 5.0).retract(rows, 3)
    torch.testing.assert_close(bounded, torch.tensor([[1.0, 0.0], [0.0, 2.0], [6.0, 8.0], [300.0, 400.0]]))
    torch.testing.assert_close(FreeNorm(2.0).retract(rows, 3), rows)
