"""Pruning of linear heads: Optimal Brain Surgeon and magnitude, both of which leave the span equation exact.

A head trained from zero is a combination of its training features, theta = Phi^T a. Both methods keep that on the
surviving coordinates S: the surgeon's weights are the solution on Phi_S, so theta_S = Phi_S^T a' with other
coefficients a', and magnitude pruning leaves theta_S = Phi_S^T a as it was. Pruning removes equations and adds no
noise.
"""

from __future__ import annotations

import math

import torch

from exhume.errors import InputError
from exhume.support.validation import finite

# Eigenvalues of Phi Phi^T below this share of the largest are rounding.
_RANK_TOLERANCE = 1e-13
# [P_perp]_qq below which the other features cannot replace feature q.
_ESSENTIAL = 1e-10
# Share of theta that may lie outside the span of the features: far more than rounding, far less than another model's.
_OUTSIDE_SPAN = 1e-3
# Entries of Phi that `block=None` reads in all: some ten seconds of memory traffic.
_READS = 10**10


def magnitude(theta: torch.Tensor, keep: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keeps the coordinates of largest sum_k theta_kq^2 and changes none of them.

    Each surviving weight still is theta_q = sum_i a_i phi_q(x_i) with the coefficients a of the whole head, so the span
    equation holds on the survivors as exactly as before; what the model outputs changes.

    Args:
        theta: (k, p).
        keep: p', how many features survive.

    Returns:
        The surviving indices in order (p',), and their weights (k, p').
    """
    _check_theta(theta)
    _check_count("keep", keep, theta.shape[1])
    surviving = theta.double().square().sum(0).topk(keep).indices.sort().values
    return surviving, theta[:, surviving].clone()


def optimal_brain_surgeon(
    features: torch.Tensor, theta: torch.Tensor, keep: int, block: int | None = None, ridge: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Removes features one after the other, each time the one whose removal raises the training loss least.

    The square loss has the Hessian H = Phi^T Phi + n ridge I. Removing feature q and re-adjusting all others raises the
    loss by theta_q^2 / (2 [H^-1]_qq) (Hassibi & Stork 1992); several outputs share H and lose a feature together, so
    their saliencies add up. With more features than samples and no ridge, H is singular; under vanishing damping e,
    e H^-1 tends to the projector P_perp on the null space of Phi_S, S the survivors, and

        saliency_q = theta_q^2 / [P_perp]_qq,     [P_perp]_qq = 1 - phi_q^T (Phi_S Phi_S^T)^-1 phi_q,

    which is also the growth of ||theta||^2: the re-adjusted weights stay Phi_S^+ Y and the loss stays zero. Once as
    many features as independent samples are left, H has an inverse and the loss begins to rise. With a ridge the same
    formulas hold with Phi_S Phi_S^T + n ridge I, and the weights stay the ridge solution on the survivors.

    Nothing larger than n x n and n x p is formed; a removal costs O(n p).

    Args:
        features: Phi (n, p), of the training inputs.
        theta: (k, p), the minimum of the training loss on these features: Phi^+ Y, Eq. (2), or with a ridge Eq. (169).
        keep: p', how many features survive.
        block: how many features are removed at a time, by saliencies computed before any is removed. 1 is the exact
            greedy order; None takes 1 if that reads at most 10^10 entries of Phi (a removal reads n p), else as many as
            keep to them. Near the number of samples, where the choice matters most, blocks shrink to 1.
        ridge: lambda of Eq. (168) that theta was trained with.

    Returns:
        The surviving indices in order (p',), and the re-adjusted weights (k, p').
    """
    _check_theta(theta)
    num_features = theta.shape[1]
    _check_count("keep", keep, num_features)
    _check_count("block", 1 if block is None else block, num_features)
    if not 0 <= ridge < math.inf:
        raise InputError(f"ridge must be a number that is not negative, got {ridge}")
    rows = _independent(features, num_features)  # (p, r)
    shift = ridge * features.shape[0]
    labels = _labels(rows, theta, shift)  # (r, k)
    rank = rows.shape[1]
    block = block or max(1, math.ceil((num_features - keep) * num_features * rank / _READS))
    surviving = torch.arange(num_features, device=theta.device)
    while len(surviving) > max(keep, rank):
        # A fresh factorisation every `rank` removals costs no more than the downdates between them.
        count = min(max(rank, block), len(surviving) - max(keep, rank))
        surviving = surviving[_without_spare(rows[surviving], labels, shift, count, block)]
    while len(surviving) > keep:
        count = min(max(1, len(surviving) // 4), len(surviving) - keep)
        surviving = surviving[_without_needed(rows[surviving], labels, shift, count)]
    return surviving, _solution(rows[surviving], labels, shift).T.to(theta.dtype)


def _independent(features: torch.Tensor, num_features: int) -> torch.Tensor:
    """Z^T (p, r) with Z^T Z = Phi^T Phi and Z of full rank r: the features in an orthonormal basis of the samples."""
    if features.ndim != 2 or features.shape[0] < 1 or features.shape[1] != num_features:
        raise InputError(f"features of shape {tuple(features.shape)} do not fit theta; valid: (n, {num_features})")
    if not bool(features.any()):
        raise InputError("features are all zero; valid: finite numbers that are not all zero")
    wide = finite("features", features.detach()).double()
    values, vectors = torch.linalg.eigh(wide @ wide.T)
    return wide.T @ vectors[:, values > _RANK_TOLERANCE * values[-1]]


def _labels(rows: torch.Tensor, theta: torch.Tensor, shift: float) -> torch.Tensor:
    """The labels Y (r, k) of which theta is the solution, as far as features can express them."""
    wide = theta.detach().double().T  # (p, k)
    gram = rows.T @ rows
    coefficients = torch.linalg.solve(gram, rows.T @ wide)  # a, theta = Phi^T a
    outside = float((wide - rows @ coefficients).norm() / wide.norm().clamp(min=torch.finfo(torch.float64).tiny))
    if outside > _OUTSIDE_SPAN:
        raise InputError(
            f"theta lies outside the span of the features (by {outside:.1%}): it is not the solution on these inputs; "
            "valid: the inputs that it was trained on"
        )
    return gram @ coefficients + shift * coefficients


def _solution(rows: torch.Tensor, labels: torch.Tensor, shift: float) -> torch.Tensor:
    """theta (m, k), the minimum on the given features: in r x r or m x m, whichever is smaller."""
    if rows.shape[0] >= rows.shape[1]:
        return rows @ torch.linalg.solve(_shifted(rows.T @ rows, shift), labels)
    return torch.linalg.solve(_shifted(rows @ rows.T, shift), rows @ labels)


def _without_spare(rows: torch.Tensor, labels: torch.Tensor, shift: float, count: int, block: int) -> torch.Tensor:
    """Which rows (m, r), m > r, are left when up to `count` that the others can replace are gone: a mask.

    With M = (Z Z^T + shift I)^-1, the removal of rows B (b, r) changes M by M B^T C^-1 B M, C = I - B M B^T.
    """
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(_shifted(rows.T @ rows, shift)))  # M
    spare = 1 - ((rows @ inverse) * rows).sum(1)  # [P_perp]_qq, (m,)
    weights = rows @ (inverse @ labels)  # theta, (m, k)
    left = torch.ones_like(spare, dtype=torch.bool)
    excess, rank = rows.shape[0] - rows.shape[1], rows.shape[1]
    while True:
        saliency = weights.square().sum(1) / spare
        saliency[~left | (spare < _ESSENTIAL)] = math.inf
        # Half of the excess at most, so that the last removals before the loss rises are single ones.
        chosen = saliency.topk(max(1, min(block, count, excess // 2)), largest=False).indices
        while len(chosen) > 1 and not _replaceable(rows[chosen], inverse):
            chosen = chosen[: len(chosen) // 2]
        left[chosen] = False
        count, excess = count - len(chosen), excess - len(chosen)
        if count == 0 or len(chosen) > rank:  # for more than that, starting afresh is cheaper than the downdate
            return left
        factor = torch.linalg.cholesky(_shifted(-(rows[chosen] @ inverse @ rows[chosen].T), 1.0))  # of C
        step = torch.linalg.solve_triangular(factor, rows[chosen] @ inverse, upper=False)  # (b, r)
        moved = rows @ step.T  # (m, b)
        weights += moved @ torch.linalg.solve_triangular(factor, weights[chosen], upper=False)
        spare -= moved.square().sum(1)
        inverse += step.T @ step


def _replaceable(rows: torch.Tensor, inverse: torch.Tensor) -> bool:
    """Whether the others can replace these rows B (b, r) together: no eigenvalue of B M B^T comes near 1."""
    if len(rows) > len(inverse):
        factor = torch.linalg.cholesky(inverse)
        inside = factor.T @ (rows.T @ rows) @ factor
    else:
        inside = rows @ inverse @ rows.T
    return float(torch.linalg.eigvalsh(inside)[-1]) < 1 - _ESSENTIAL


def _without_needed(rows: torch.Tensor, labels: torch.Tensor, shift: float, count: int) -> torch.Tensor:
    """Which rows (m, r), m <= r, are left when `count` are gone, by the inverse Hessian itself: a mask."""
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(_shifted(rows @ rows.T, shift)))  # H^-1, (m, m)
    weights = inverse @ (rows @ labels)  # theta, (m, k)
    left = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    for _ in range(count):
        saliency = weights.square().sum(1) / inverse.diagonal()
        saliency[~left] = math.inf
        chosen = saliency.argmin()
        column = inverse[:, chosen] / inverse[chosen, chosen].sqrt()
        weights -= torch.outer(column, weights[chosen] / inverse[chosen, chosen].sqrt())
        inverse -= torch.outer(column, column)
        left[chosen] = False
    return left


def _shifted(matrix: torch.Tensor, shift: float) -> torch.Tensor:
    return matrix + shift * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)


def _check_theta(theta: torch.Tensor) -> None:
    if theta.ndim != 2 or not theta.is_floating_point():
        raise InputError(f"theta of shape {tuple(theta.shape)} and {theta.dtype} is not a head; valid: (k, p), floats")
    finite("theta", theta)


def _check_count(name: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise InputError(f"{name} must be between 1 and the number of features {most}, got {value}")
