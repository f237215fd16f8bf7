"""Rows behind a StandardScaler to the last digit: the zeros of a first layer's columns, solved for exactly.

A StandardScaler that was fitted on the same n rows makes their mean zero: 1^T X = 0. The displacement of the weights,
D = C X, then has rank n - 1 and shows C e_j - C 1 / n, but not z = C 1 / n. The bias shows about that, but it has no
weight decay, so that what it shows differs from z. Where neuron h was inactive on sample j, c_hj = (U a_j)_h + z_h = 0
exactly, with U a basis of D's columns: linear equations for all a_j and z, far more of them than unknowns. Their null
vector gives C, and X = C^+ D up to one factor, which the variances of the scaled columns, all one, determine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from exhume.target.dense_displacement import DenseDisplacement

Tensor = torch.Tensor
# Entries of a column below these shares of its mean size are taken for zeros, round after round: the first is what
# unmixing leaves in zeros after strong decay (alpha 0.1), the last what rounding of float64 does.
_ZEROS = (0.2, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6, 1e-7)
# The null vector is exact if its singular value is below this share of the next one.
_EXACT = 1e-5
# Singular values of D below this share of the largest are zero.
_RANK = 1e-8
# Unknowns up to which the equations are written out, and rows up to which every one is tried as the wrong one.
_MOST_UNKNOWNS, _MOST_REPLACED = 1500, 12
# Rounds of zeros from rows and rows from zeros.
_ROUNDS = 3


@dataclass(frozen=True)
class Polished:
    """Rows (n, d) of mean 0 and mean square 1, and the relative error that rounding may have left in them."""

    rows: Tensor
    error: float


def polish(moved: DenseDisplacement, rows: Tensor) -> Polished | None:
    """The scaled rows near `rows` (n, d) that solve the equations exactly; None if none do.

    One row may be wrong: it is then minus the sum of the others, and every row is taken for it in turn.

    Args:
        moved: the displacement of the first layer; its bias is the last column.
        rows: from unmixing, with norms and signs.
    """
    count = len(rows)
    left, sizes, _ = torch.linalg.svd(moved.moved[:, :-1], full_matrices=False)
    centred = count - 1 < len(sizes) and float(sizes[count - 1]) < _RANK * float(sizes[0])
    if not centred or count < 3 or count * (count - 1) > _MOST_UNKNOWNS:
        return None
    basis = left[:, : count - 1]  # U (h, n - 1)
    polished = _from_rows(moved, basis, rows)
    for wrong in range(count if count <= _MOST_REPLACED else 0):
        if polished is not None:
            break
        replaced = rows.clone()
        replaced[wrong] = rows[wrong] - rows.sum(0)
        polished = _from_rows(moved, basis, replaced)
    return polished


def _from_rows(moved: DenseDisplacement, basis: Tensor, rows: Tensor) -> Polished | None:
    """Zeros from rows, columns from zeros and rows from columns, until the columns are exact."""
    weights = moved.moved[:, :-1]
    for _ in range(_ROUNDS):
        with_one = torch.cat([rows, torch.ones_like(rows[:, :1])], 1)
        columns = torch.linalg.lstsq(with_one.T, moved.moved.T).solution.T  # C (h, n), about
        inactive = torch.minimum(with_one @ moved.before.T, with_one @ moved.after.T).T < 0
        settled = _settle(basis, (columns.abs() < _ZEROS[0] * columns.abs().mean(0)) & inactive)
        if settled is None:
            return None
        columns, used, ratio = settled
        found = torch.linalg.lstsq(columns[used], weights[used]).solution
        found = found if float((found * rows).sum()) > 0 else -found
        # Every column that varies has mean square 1 after a StandardScaler.
        varying = found.square().mean(0) > _RANK * found.square().mean()
        rows = found / found[:, varying].square().mean().sqrt()
        spread = float((rows[:, varying].square().mean(0) - 1).abs().max())
        if ratio < _EXACT and spread < _EXACT:
            return Polished(rows, max(10 * ratio, spread))
    return None


def _settle(basis: Tensor, zeros: Tensor) -> tuple[Tensor, Tensor, float] | None:
    """Columns C (h, n) that vanish at ever fewer of the zeros, neurons that have any, and how exact C is."""
    columns, used, ratio = basis, zeros.any(1), math.inf
    for least in _ZEROS:
        solved = _null_vector(basis, zeros)
        if solved is None:
            return None
        (columns, ratio), used = solved, zeros.any(1)
        if ratio < _EXACT:
            break
        zeros = (columns.abs() < least * columns.abs().mean(0)) & zeros.any(1, keepdim=True)
    return columns, used, ratio


def _null_vector(basis: Tensor, zeros: Tensor) -> tuple[Tensor, float] | None:
    """C (h, n) that vanishes best at `zeros`, and its residual over that of the next best; None if there is none.

    With z_h eliminated, neuron h asks that (U a_j)_h is the same for all samples that it was inactive on. Adding one
    vector to all a_j changes z only; their sum is held at zero.
    """
    rank, count = basis.shape[1], zeros.shape[1]
    inactive = zeros.to(basis)
    number = inactive.sum(1).clamp_min(1)
    if int((inactive.sum(1) - 1).clamp_min(0).sum()) <= count * rank:
        return None
    form = torch.zeros(count, rank, count, rank, dtype=basis.dtype)
    for i in range(count):
        for j in range(count):
            weights = -inactive[:, i] * inactive[:, j] / number + (inactive[:, i] if i == j else 0.0)
            form[i, :, j, :] = (basis * weights[:, None]).T @ basis
    matrix = form.reshape(count * rank, count * rank)
    mean = torch.kron(torch.ones(count, count, dtype=basis.dtype) / count, torch.eye(rank, dtype=basis.dtype))
    values, vectors = torch.linalg.eigh(matrix + mean * matrix.diagonal().mean())
    moves = vectors[:, 0].reshape(count, rank) @ basis.T  # (n, h)
    shared = -(inactive.T * moves).sum(0) / number  # z
    ratio = math.sqrt(max(float(values[0]), 0.0) / max(float(values[1]), 1e-300))
    return (moves + shared).T, ratio
