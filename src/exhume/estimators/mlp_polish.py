"""Rows behind a StandardScaler to the last digit: the zeros of a first layer's columns, solved for exactly.

A StandardScaler that was fitted on the same n rows makes their mean zero: 1^T X = 0. The displacement of the weights,
D = C X, then has rank n - 1 and shows C e_j - C 1 / n, but not z = C 1 / n. The bias shows about that, but it has no
weight decay, so that what it shows differs from z. Where neuron h was inactive on sample j, c_hj = (U a_j)_h + z_h = 0
exactly, with U a basis of D's columns: linear equations for all a_j and z, far more of them than unknowns. Their null
vector gives C, and X = C^+ D up to one factor, which the variances of the scaled columns, all one, determine.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from scipy.linalg import eigh

from exhume.target.dense_displacement import DenseDisplacement

Tensor = torch.Tensor
# An entry of a column counts as a zero by w = e^2 / (c^2 + e^2), c its share of the column's mean size. Widths e to
# start with, and their factor from step to step: above what errors of the first rows leave in zeros, below entries.
_WIDTHS, _FACTOR, _STEPS = (0.03, 0.1, 0.3), 0.6, 40
# Rounds from rows to columns and back, made while mean squares of columns are off by less than this.
_ROUNDS, _PROMISING = 3, 0.5
# Entries below this share of a column's mean size are zeros in the end: far above rounding of float64.
_ZERO = 1e-5
# The null vector is exact if its singular value is below this share of the next one.
_EXACT = 1e-5
# Singular values of D below this share of the largest are zero.
_RANK = 1e-8
# Unknowns up to which the equations are written out.
_MOST_UNKNOWNS = 800


@dataclass(frozen=True)
class Polished:
    """Rows (n, d) of mean 0 and mean square 1, and the relative error that rounding may have left in them."""

    rows: Tensor
    error: float


def polish(moved: DenseDisplacement, rows: Tensor) -> Polished | None:
    """The scaled rows near `rows` (n, d) that solve the equations exactly; None if none do.

    Args:
        moved: the displacement of the first layer; its bias is the last column.
        rows: from unmixing, with norms and signs; some may be wrong.
    """
    count = len(rows)
    left, sizes, _ = torch.linalg.svd(moved.moved[:, :-1], full_matrices=False)
    centred = count - 1 < len(sizes) and float(sizes[count - 1]) < _RANK * float(sizes[0])
    if not centred or count < 3 or count * (count - 1) > _MOST_UNKNOWNS:
        return None
    basis = left[:, : count - 1]  # U (h, n - 1)
    for width, near in itertools.product(_WIDTHS, (rows, _balanced(rows))):
        for _ in range(_ROUNDS):
            found, ratio, spread = _from_rows(moved, basis, near, width)
            if max(ratio, spread) < _EXACT:
                return Polished(found, max(10 * ratio, spread))
            if not spread < _PROMISING:
                break
            near = _balanced(found)
    return None


def _balanced(rows: Tensor) -> Tensor:
    """The rows, each times a factor, with mean 0 and mean square 1: norms that do not rest on the bias."""
    factors = torch.linalg.svd(rows.T)[2][-1]
    found = rows * (factors * torch.where(factors.sum() < 0, -1.0, 1.0))[:, None]
    return found / found.square().mean().sqrt()


def _from_rows(moved: DenseDisplacement, basis: Tensor, rows: Tensor, width: float) -> tuple[Tensor, float, float]:
    """Rows (n, d) of columns that vanish where the given rows leave neurons inactive; how exact, and the spread.

    Reweighted least squares over entries that are inactive at both ends: some were active in between, and some are
    inactive for a wrong row only; they lose their weight while `width` falls. The first number is the ratio of
    `_null_vector`, 1 if zeros do not determine the columns; the other how far mean squares of the rows' columns, all 1
    after a StandardScaler, are off.
    """
    weights = moved.moved[:, :-1]
    with_one = torch.cat([rows, torch.ones_like(rows[:, :1])], 1)
    ends = torch.stack([with_one @ moved.before.T, with_one @ moved.after.T]).mT  # (2, h, n)
    inactive, columns = ends.amax(0) < 0, weights @ torch.linalg.pinv(rows)
    columns = columns - columns.mean(1, keepdim=True)  # C - C 1 1^T / n, about
    shared = torch.where(inactive, columns, torch.nan).nanmedian(1, keepdim=True).values.nan_to_num(0.0)
    columns = columns - shared
    for _ in range(_STEPS):
        shares = columns.abs() / columns.abs().mean(0).clamp_min(1e-300)
        columns, ratio = _null_vector(basis, inactive * (width**2 / (shares.square() + width**2)))
        if ratio < 0.1 * _EXACT:
            break
        width *= _FACTOR
    zeros = (columns.abs() < _ZERO * columns.abs().mean(0)) & (ends.amin(0) < 0)
    used, ratio = torch.ones_like(zeros[:, 0]), 1.0
    if int((zeros.sum(1) - 1).clamp_min(0).sum()) > basis.shape[1] * len(rows):  # more equations than unknowns
        (columns, ratio), used = _null_vector(basis, zeros.to(basis)), zeros.any(1)
    found = torch.linalg.lstsq(columns[used], weights[used]).solution
    found = found if float((found * rows).sum()) > 0 else -found
    varying = found.square().mean(0) > _RANK * found.square().mean()
    found = found / found[:, varying].square().mean().sqrt()
    return found, ratio, float((found[:, varying].square().mean(0) - 1).abs().max())


def _null_vector(basis: Tensor, zeros: Tensor) -> tuple[Tensor, float]:
    """C (h, n) that vanishes best at `zeros` (h, n), weights from 0 to 1; and its residual over that of the next best.

    With z_h eliminated, neuron h asks that (U a_j)_h is the same for all samples that it was inactive on. Adding one
    vector to all a_j changes z only; their sum is held at zero.
    """
    rank, count = basis.shape[1], zeros.shape[1]
    number = zeros.sum(1).clamp_min(1e-300)
    parts = ((zeros / number.sqrt()[:, None])[:, :, None] * basis[:, None]).flatten(1)  # (h, n (n - 1))
    matrix = torch.block_diag(*torch.einsum("hi,hr,hs->irs", zeros, basis, basis)) - parts.T @ parts
    mean = torch.kron(torch.ones(count, count, dtype=basis.dtype) / count, torch.eye(rank, dtype=basis.dtype))
    matrix = matrix + mean * matrix.diagonal().mean()
    values, vectors = eigh(matrix.numpy(), subset_by_index=[0, 1])
    moves = torch.from_numpy(vectors[:, 0]).reshape(count, rank) @ basis.T  # (n, h)
    shared = -(zeros.T * moves).sum(0) / number  # z
    ratio = math.sqrt(max(float(values[0]), 0.0) / max(float(values[1]), 1e-300))
    return (moves + shared).T, ratio
