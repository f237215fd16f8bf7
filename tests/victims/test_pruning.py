"""Pruning of heads: Optimal Brain Surgeon against a dense damped Hessian; magnitude; the span equation after both."""

import pytest
import torch

from exhume.errors import InputError
from exhume.victims.pruning import magnitude, optimal_brain_surgeon

SAMPLES, FEATURES = 8, 30


def problem(outputs=1, *, samples=SAMPLES, features=FEATURES, ridge=0.0, seed=0):
    """Rectified Gaussian features, labels, and the solution on them."""
    generator = torch.Generator().manual_seed(seed)
    phi = torch.randn((samples, features), generator=generator, dtype=torch.float64).relu()
    labels = torch.randn((samples, outputs), generator=generator, dtype=torch.float64)
    return phi, labels, solution(phi, labels, ridge)


def solution(phi, labels, ridge=0.0):
    if ridge == 0:
        return (torch.linalg.pinv(phi) @ labels).T
    hessian = phi.T @ phi + len(phi) * ridge * torch.eye(phi.shape[1], dtype=torch.float64)
    return torch.linalg.solve(hessian, phi.T @ labels).T


def textbook_surgeon(phi, theta, damping):
    """Hassibi & Stork's step with the explicit inverse of Phi^T Phi + damping I: (survivors, weights) by size."""
    alive, stages = torch.arange(phi.shape[1]), {}
    while len(alive):
        stages[len(alive)] = (alive, theta)
        left = phi[:, alive]
        inverse = torch.linalg.inv(left.T @ left + damping * torch.eye(len(alive), dtype=torch.float64))
        gone = (theta.square().sum(0) / inverse.diagonal()).argmin()
        theta = theta - torch.outer(theta[:, gone], inverse[gone]) / inverse[gone, gone]
        others = torch.arange(len(alive)) != gone
        alive, theta = alive[others], theta[:, others]
    return stages


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_surgeon_without_ridge_is_the_textbook_one_under_vanishing_damping(outputs, seed):
    phi, _, theta = problem(outputs, seed=seed)
    stages = textbook_surgeon(phi, theta, damping=1e-7)
    for keep in range(FEATURES, 0, -1):  # nested survivors at every size: the same order of removal
        surviving, weights = optimal_brain_surgeon(phi, theta, keep)
        assert torch.equal(surviving, stages[keep][0]), keep
        torch.testing.assert_close(weights, stages[keep][1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_surgeon_with_ridge_is_the_textbook_one_with_that_damping(ridge):
    phi, _, theta = problem(2, ridge=ridge)
    stages = textbook_surgeon(phi, theta, damping=SAMPLES * ridge)
    for keep in range(FEATURES, 0, -1):
        surviving, weights = optimal_brain_surgeon(phi, theta, keep, ridge=ridge)
        assert torch.equal(surviving, stages[keep][0]), keep
        torch.testing.assert_close(weights, stages[keep][1], atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize("block", [None, 1, 7, 40])  # below and above the number of samples
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_weights_are_the_solution_on_the_surviving_features(block, ridge):
    phi, labels, theta = problem(2, samples=12, features=300, ridge=ridge)
    for keep in (200, 20, 12, 5):
        surviving, weights = optimal_brain_surgeon(phi, theta, keep, block=block, ridge=ridge)
        assert torch.equal(surviving, surviving.unique())
        torch.testing.assert_close(weights, solution(phi[:, surviving], labels, ridge), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("block", [1, 50])
def test_training_loss_stays_zero_until_features_are_as_few_as_samples(block):
    phi, labels, theta = problem(samples=12, features=300)

    def loss(keep):
        surviving, weights = optimal_brain_surgeon(phi, theta, keep, block=block)
        return float((phi[:, surviving] @ weights.T - labels).square().mean())

    assert max(loss(keep) for keep in (299, 150, 40, 13, 12)) < 1e-20
    assert 1e-6 < loss(11) < loss(8) < loss(4)


def test_surgeon_keeps_the_norm_smaller_than_other_choices_do():
    phi, labels, theta = problem(samples=12, features=300)
    surgeon = optimal_brain_surgeon(phi, theta, 60)[1].norm()
    in_blocks = optimal_brain_surgeon(phi, theta, 60, block=40)[1].norm()
    largest = solution(phi[:, magnitude(theta, 60)[0]], labels).norm()
    assert surgeon < largest
    assert surgeon <= in_blocks < 1.1 * surgeon


def test_dependent_samples_and_dead_features_are_no_obstacle():
    phi, labels, _ = problem(samples=10, features=60)
    phi[7:], labels[7:] = phi[:3], labels[:3]  # rank 7
    phi[:, [4, 44]] = 0
    theta = solution(phi, labels)
    surviving, weights = optimal_brain_surgeon(phi, theta, 7)
    assert (phi[:, surviving] @ weights.T - labels).abs().max() < 1e-9
    assert not {4, 44} & set(optimal_brain_surgeon(phi, theta, 58)[0].tolist())


@pytest.mark.parametrize("block", [1, 5, 30])
def test_features_that_only_each_other_can_replace_do_not_go_together(block):
    phi, labels, _ = problem(samples=5, features=80)
    phi[0], phi[:, [17, 18]] = 0, 0
    phi[0, [17, 18]] = 1.0  # sample 0 is seen by these two alone, and they see nothing else
    phi[1, phi.sum(0) == 0] = 1.0  # no feature is dead
    labels[0] = 1e-6  # and sample 0 needs so little of them that both are the cheapest to remove
    theta = solution(phi, labels)
    for keep in (70, 40, 5):
        surviving, weights = optimal_brain_surgeon(phi, theta, keep, block=block)
        assert len({17, 18} & set(surviving.tolist())) == 1
        assert (phi[:, surviving] @ weights.T - labels).abs().max() < 1e-9


def test_float32_weights_stay_float32_and_in_the_span():
    phi, _, theta = problem(samples=12, features=300)
    surviving, weights = optimal_brain_surgeon(phi.float(), theta.float(), 100)
    assert weights.dtype == torch.float32
    left = phi[:, surviving].T
    outside = weights.double().T - left @ torch.linalg.lstsq(left, weights.double().T).solution
    assert outside.norm() < 1e-6 * weights.norm()


def test_magnitude_keeps_the_largest_columns_untouched():
    theta = torch.tensor([[3.0, 0.1, -2.0, 0.0, 1.0], [0.0, 0.1, 0.0, -2.5, 1.0]])
    surviving, weights = magnitude(theta, 3)
    assert surviving.tolist() == [0, 2, 3]  # squares 9, 0.02, 4, 6.25, 2
    assert torch.equal(weights, theta[:, [0, 2, 3]])


@pytest.mark.parametrize("keep", [0, -1, FEATURES + 1])
def test_counts_out_of_range_are_named(keep):
    phi, _, theta = problem()
    for prune in (lambda: magnitude(theta, keep), lambda: optimal_brain_surgeon(phi, theta, keep)):
        with pytest.raises(InputError, match=f"keep must be between 1 and .* {FEATURES}, got {keep}"):
            prune()
    with pytest.raises(InputError, match="block"):
        optimal_brain_surgeon(phi, theta, 5, block=keep)


@pytest.mark.parametrize(
    ("features", "theta", "options", "message"),
    [
        (torch.ones(3, 4), torch.ones(1, 5), {}, r"\(3, 4\) do not fit theta; valid: \(n, 5\)"),
        (torch.zeros(3, 5), torch.ones(1, 5), {}, "all zero"),
        (torch.ones(3, 5), torch.ones(5), {}, r"valid: \(k, p\)"),
        (torch.ones(3, 5), torch.full((1, 5), torch.nan), {}, "NaN"),
        (torch.ones(3, 5), torch.ones(1, 5), {"ridge": -1.0}, "ridge .* -1.0"),
        (torch.ones(3, 5), torch.arange(5.0)[None], {}, "outside the span .* inputs that it was trained on"),
    ],
)
def test_bad_input_is_named(features, theta, options, message):
    with pytest.raises(InputError, match=message):
        optimal_brain_surgeon(features, theta, 2, **options)
