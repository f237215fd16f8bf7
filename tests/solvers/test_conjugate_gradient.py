"""Conjugate gradients against a direct solver."""

import torch

from exhume.solvers import CGOptions, conjugate_gradient


def system(size=12):
    generator = torch.Generator().manual_seed(0)
    root = torch.randn((size, size), generator=generator, dtype=torch.float64)
    return root @ root.T + torch.eye(size), torch.randn((size, 1), generator=generator, dtype=torch.float64)


def test_solves_a_positive_system_in_as_many_steps_as_unknowns():
    matrix, goal = system()
    solution, residual = conjugate_gradient(lambda rows: matrix @ rows, goal, lambda rows: rows, CGOptions(13, 1e-12))
    torch.testing.assert_close(solution, torch.linalg.solve(matrix, goal), atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(residual, goal - matrix @ solution, atol=1e-8, rtol=1e-8)


def test_perfect_preconditioner_needs_one_step():
    matrix, goal = system()
    inverse = torch.linalg.inv(matrix)
    solution, _ = conjugate_gradient(lambda rows: matrix @ rows, goal, lambda rows: inverse @ rows, CGOptions(1, 0))
    torch.testing.assert_close(solution, inverse @ goal)


def test_indefinite_direction_ends_without_a_step_along_it():
    solution, residual = conjugate_gradient(lambda rows: -rows, torch.ones(3, 1), lambda rows: rows, CGOptions(5, 0))
    assert torch.equal(solution, torch.zeros(3, 1))
    assert torch.equal(residual, torch.ones(3, 1))
