"""Fits of inputs to the displacement D = C [X 1] of a first layer, one by one and together, for any activation.

Alone: an input y is right if the space of what it can have sent back (see `sample_spaces`) meets the column space of D,

    f(y) = min over unit vectors c of that space of |c - U U^T c|^2.

Together: D = sum_j c_j(y_j) y_j^T + E F for m inputs, with a free matrix E F of rank n - m for those not yet found. The
residual is weighted by the dual basis, so that that of each sample is relative to its own column.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from exhume.attacks._base.unmix_tuning import SmoothTuning
from exhume.attacks._search.unmixing.sample_spaces import InputFrame, Nodes, Spaces

Tensor = torch.Tensor


@dataclass(frozen=True)
class Alone:
    """Inputs (m, n) fitted one by one, the coordinates (m, n) of their unit columns, and sqrt(f) (m,)."""

    inputs: Tensor
    columns: Tensor
    misfits: Tensor


@dataclass(frozen=True)
class Together:
    """Inputs (m, n) fitted together, their columns (m, h), and their residuals (m,) relative to those."""

    inputs: Tensor
    columns: Tensor
    residuals: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def only(self, kept: Tensor) -> Together:
        """Some of them."""
        return Together(self.inputs[kept], self.columns[kept], self.residuals[kept])


@dataclass(frozen=True)
class _Step:
    """f (m,), coordinates of the columns (m, n), and the normal equations of a step: (m, p + q, p + q), (m, p + q)."""

    loss: Tensor
    columns: Tensor
    matrix: Tensor
    slope: Tensor


def fit_alone(nodes: Nodes, inputs: Tensor, known: Tensor, share: float, tuning: SmoothTuning) -> Alone:
    """Levenberg-Marquardt for f from each of the inputs (m, n).

    Args:
        nodes: of the path of training.
        inputs: to start from.
        known: (n, r), orthonormal; columns of further samples are orthogonal to these coordinates.
        share: of the energy along them that counts as outside the column space; below 1, as they are not exact.
        tuning: number of steps and damping.
    """
    width = nodes.frame.directions.shape[1]
    damping = torch.full_like(inputs[:, 0], tuning.damping)
    now = _alone(nodes, inputs, known, share)
    for _ in range(tuning.steps):
        sizes = now.matrix.diagonal(dim1=1, dim2=2)
        of_inputs, of_others = (part.mean(1, keepdim=True).expand_as(part) for part in sizes.tensor_split([width], 1))
        added = torch.cat([of_inputs, tuning.free * of_others], 1)
        added = damping[:, None] * added + 1e-6 * sizes.mean(1, keepdim=True) + 1e-12
        step = torch.linalg.solve_ex(now.matrix + torch.diag_embed(added), now.slope)[0]
        tried = inputs - torch.nan_to_num(step)[:, :width] @ nodes.frame.directions.T
        then = _alone(nodes, tried, known, share)
        better = then.loss < now.loss
        damping = torch.where(better, 0.3 * damping, 4 * damping).clamp(1e-6, 1e4)
        inputs = torch.where(better[:, None], tried, inputs)
        now = _Step(
            torch.where(better, then.loss, now.loss),
            torch.where(better[:, None], then.columns, now.columns),
            torch.where(better[:, None, None], then.matrix, now.matrix),
            torch.where(better[:, None], then.slope, now.slope),
        )
    return Alone(inputs.double(), now.columns.double(), now.loss.double().clamp_min(0).sqrt())


def _alone(nodes: Nodes, inputs: Tensor, known: Tensor, share: float) -> _Step:
    """F and its Gauss-Newton model in the inputs and in the coefficients of the columns."""
    spaces, basis = nodes.spaces(inputs), nodes.frame.basis
    vectors = spaces.vectors  # (m, q, h)
    eye = torch.eye(vectors.shape[1]).to(vectors)
    gram = vectors @ vectors.transpose(1, 2)
    root = torch.linalg.cholesky_ex(gram + 1e-6 * eye)[0]
    along = known @ known.T
    within = torch.linalg.solve_triangular(root, vectors @ basis, upper=False)
    within = torch.nan_to_num(within @ (torch.eye(len(along)).to(along) - (1 - (1 - share) ** 0.5) * along))
    best = torch.linalg.eigh(within @ within.transpose(1, 2))[1][:, :, -1:]
    weights = torch.linalg.solve_triangular(root.transpose(1, 2), best, upper=True)[:, :, 0].nan_to_num(nan=1.0)
    column = (weights[:, :, None] * vectors).sum(1)
    size = torch.linalg.vector_norm(column, dim=1, keepdim=True).clamp_min(1e-30)
    column, weights = column / size, weights / size
    kept = torch.eye(len(along)).to(along) - share**0.5 * along
    inside = column @ basis
    rest = column - (inside @ kept) @ basis.T
    moves = torch.cat([spaces.derivative(weights, nodes.ways), vectors], 1)  # (m, p + q, h)
    moves = moves - (moves @ column[:, :, None]) * column[:, None, :]
    moves = moves - ((moves @ basis) @ kept) @ basis.T
    unit = inside / torch.linalg.vector_norm(inside, dim=1, keepdim=True).clamp_min(1e-30)
    slope = (moves @ rest[:, :, None])[:, :, 0]
    return _Step(rest.square().sum(1), unit, moves @ moves.transpose(1, 2), slope)


@dataclass(frozen=True)
class _Weighting:
    """Weights (n, m) of D's coordinates, one column a sample, and a basis (h, n - m) of what is free."""

    weights: Tensor
    free: Tensor

    def off(self, rows: Tensor) -> Tensor:
        """Rows (., h) without what the free part takes."""
        return rows - (rows @ self.free) @ self.free.T


@dataclass(frozen=True)
class _Model:
    """The columns that fit D best at given inputs, and the residual (h, m)."""

    spaces: Spaces
    vectors: Tensor  # (m q, h)
    coefficients: Tensor  # (m, q)
    columns: Tensor
    residual: Tensor
    inputs: Tensor  # (m, m), weighted

    @property
    def loss(self) -> float:
        return float(self.residual.square().sum())


def fit_together(nodes: Nodes, start: Together, steps: int, tuning: SmoothTuning) -> Together:
    """Levenberg-Marquardt for all inputs, with their columns projected out, from inputs and columns that nearly fit."""
    frame, inputs = nodes.frame, start.inputs
    target = frame.basis * frame.sizes
    weighting = _weigh(frame, target, inputs, start.columns)
    now = _solve_columns(nodes, target, inputs, weighting)
    for _ in range(2):  # the weights follow the columns
        weighting = _weigh(frame, target, inputs, now.columns)
        now = _solve_columns(nodes, target, inputs, weighting)
    damping = tuning.joint_damping
    for _ in range(steps):
        matrix, slope, width = _normal_equations(nodes, now, weighting)
        sizes, better = matrix.diagonal().clone(), None
        free = tuning.free * sizes[width:] + 1e-8 * sizes[width:].mean()
        added = torch.cat([sizes[:width].mean().expand(width), free])
        for _ in range(tuning.trials):
            system = matrix + torch.diag(damping * added + 1e-12 * sizes.mean())
            step = torch.linalg.solve(system, slope)[:width].reshape(len(inputs), -1)
            tried = inputs + step @ frame.directions.T
            then = _solve_columns(nodes, target, tried, weighting)
            if then.loss < now.loss:
                better = tried
                damping = max(0.2 * damping, 1e-8)
                break
            damping *= 6
        if better is None:
            break
        moved = float((better - inputs).norm() / inputs.norm())
        inputs, weighting = better, _weigh(frame, target, better, then.columns)
        now = _solve_columns(nodes, target, inputs, weighting)
        if moved < tuning.still:
            break
    return Together(inputs, now.columns, torch.linalg.vector_norm(now.residual, dim=0))


def _weigh(frame: InputFrame, target: Tensor, inputs: Tensor, columns: Tensor) -> _Weighting:
    """The dual basis of the inputs and of the best free rows."""
    count, rank = len(inputs), frame.rank
    rest = torch.linalg.svd(target - columns.T @ inputs, full_matrices=False)[2][: rank - count]
    dual = torch.linalg.pinv(torch.cat([inputs, rest]), rtol=1e-6)
    weights = dual[:, :count] / torch.linalg.vector_norm(columns, dim=1).clamp_min(1e-30)
    return _Weighting(weights, torch.linalg.qr(target @ dual[:, count:])[0])


def _solve_columns(nodes: Nodes, target: Tensor, inputs: Tensor, weighting: _Weighting) -> _Model:
    """Linear least squares for the coefficients of the columns."""
    spaces = nodes.spaces(inputs)
    count, each, neurons = spaces.vectors.shape
    flat = spaces.vectors.reshape(count * each, neurons)
    vectors, weighted = weighting.off(flat), inputs @ weighting.weights
    repeated = weighted.repeat_interleave(each, 0)
    wanted = weighting.off((target @ weighting.weights).T)  # (m, h)
    gram = (vectors @ vectors.T) * (repeated @ repeated.T)
    gram = gram + 1e-8 * gram.diagonal().mean() * torch.eye(len(gram)).to(gram)
    coefficients = torch.linalg.solve(gram, ((vectors @ wanted.T) * repeated).sum(1))
    columns = (coefficients[:, None] * flat).reshape(count, each, neurons).sum(1)
    residual = wanted.T - weighting.off(columns).T @ weighted
    return _Model(spaces, vectors, coefficients.reshape(count, each), columns, residual, weighted)


def _normal_equations(nodes: Nodes, now: _Model, weighting: _Weighting) -> tuple[Tensor, Tensor, int]:
    """Gauss-Newton in the inputs (the first `width` unknowns) and the coefficients.

    A move of y_j changes column c_j, and the row that it stands in: the derivatives are sums of two outer products.
    """
    count, each = now.coefficients.shape
    directions = nodes.frame.directions
    per = directions.shape[1]
    width = count * per
    slid = weighting.off(now.spaces.derivative(now.coefficients, nodes.ways).reshape(width, -1))
    left = torch.cat([slid, now.vectors])
    right = torch.cat([now.inputs.repeat_interleave(per, 0), now.inputs.repeat_interleave(each, 0)])
    own = weighting.off(now.columns).repeat_interleave(per, 0)
    turned = (directions.T @ weighting.weights).repeat(count, 1)
    matrix = (left @ left.T) * (right @ right.T)
    cross = (own @ left.T) * (turned @ right.T)
    matrix[:width] += cross
    matrix[:, :width] += cross.T
    matrix[:width, :width] += (own @ own.T) * (turned @ turned.T)
    slope = ((left @ now.residual) * right).sum(1)
    slope[:width] += ((own @ now.residual) * turned).sum(1)
    return matrix, slope, width
