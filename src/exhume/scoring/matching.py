"""Distances between true samples and recovered rows, their one-to-one matching, and the random baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from exhume.errors import InputError
from exhume.support.randomness import generator_for

Array = Tensor | NDArray[Any]


@dataclass(frozen=True)
class Matching:
    """Pairs of a true sample and a row, in the order of the truth, with both relative distances of each pair."""

    truth_indices: Tensor  # (q,), q = min(n, m)
    rows: Tensor  # (q,)
    errors: Tensor  # (q,): ||x - x_hat|| / ||x||
    mirrored_errors: Tensor  # (q,): ||x + x_hat|| / ||x||

    @property
    def errors_up_to_sign(self) -> Tensor:
        """The smaller distance of each pair: one sign per sample is forgiven."""
        return torch.minimum(self.errors, self.mirrored_errors)  # (q,)

    @property
    def flipped(self) -> Tensor:
        """(q,) whether -x_hat is the closer one."""
        return self.mirrored_errors < self.errors


def as_rows(name: str, values: Array, truth: Tensor | None = None) -> Tensor:
    """Checks values and returns them as float64 rows (b, d) on the CPU, d as in the truth; samples are flattened."""
    given = torch.as_tensor(values).detach().to("cpu", torch.float64)
    if given.dim() < 2:
        raise InputError(f"{name} has shape {tuple(given.shape)}; valid: (samples, inputs), or (samples, *input shape)")
    rows = given.flatten(1)
    if not bool(rows.isfinite().all()):
        bad = int((~rows.isfinite().all(1)).nonzero()[0])
        raise InputError(f"{name} holds NaN or infinity, first in row {bad}; valid: finite numbers")
    if truth is not None and rows.shape[1] != truth.shape[1]:
        raise InputError(f"{name} has {rows.shape[1]} inputs a row; valid: {truth.shape[1]}, as truth has")
    return rows


def as_truth(values: Array) -> Tensor:
    """Checks the truth and returns it as rows (n, d); n > 0 and no row is zero, since errors are relative to norms."""
    rows = as_rows("truth", values)
    if not len(rows):
        raise InputError("truth has no rows; valid: at least one")
    zero = (rows == 0).all(1)
    if bool(zero.any()):
        raise InputError(f"row {int(zero.nonzero()[0])} of truth is zero; valid: rows with a positive norm")
    return rows


def on_sphere(rows: Tensor, radius: float | Tensor | None = None) -> Tensor:
    """Rescales rows to a radius, sqrt(d) by default; a zero row stays zero."""
    norms = rows.norm(dim=1)
    radius = math.sqrt(rows.shape[1]) if radius is None else radius
    factors = torch.where(norms > 0, radius / norms, torch.zeros_like(norms))  # (b,)
    return factors[:, None] * rows


def distances(truth: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """All ||x_i - x_hat_j|| / ||x_i|| and all ||x_i + x_hat_j|| / ||x_i||, each (n, m), from one matrix product.

    Good to about 1e-8: enough to choose pairs, whose own distances are then taken directly.
    """
    squares = truth.square().sum(1)[:, None] + rows.square().sum(1)  # (n, m)
    products = 2.0 * truth @ rows.T
    norms = truth.norm(dim=1)[:, None]
    signed, mirrored = ((squares + sign * products).clamp(min=0.0).sqrt() / norms for sign in (-1.0, 1.0))
    return signed, mirrored


def match(truth: Tensor, rows: Tensor, *, up_to_sign: bool) -> Matching:
    """Pairs true samples and rows one to one so that the sum of relative distances is least: Eq. (12)'s minimum.

    The Hungarian method, on min(||x - x_hat||, ||x + x_hat||) if `up_to_sign`. With unequal counts the rest stays
    unpaired. Of a row and its negative, equally close up to sign, the one with the right sign is taken.
    """
    signed, mirrored = distances(truth, rows)
    costs = torch.minimum(signed, mirrored) + 1e-9 * signed if up_to_sign else signed
    indices, columns = (torch.from_numpy(places) for places in linear_sum_assignment(costs.numpy()))
    x, x_hat = truth[indices], rows[columns]
    norms = x.norm(dim=1)
    return Matching(indices, columns, (x - x_hat).norm(dim=1) / norms, (x + x_hat).norm(dim=1) / norms)


def borrow(rows: Tensor, truth: Tensor, flipped: Tensor, *, norms_known: bool, signs_known: bool) -> Tensor:
    """Gives rows (q, d) the norms and the signs of their matches in the truth (q, d), where these are not known."""
    if not norms_known:
        rows = on_sphere(rows, truth.norm(dim=1))
    return rows if signs_known else torch.where(flipped[:, None], -rows, rows)


def left_to_find(truth: Tensor, known: Tensor, within: float) -> Tensor:
    """Indices of the true samples that no known row, matched one to one and with its sign, is `within` of."""
    pairs = match(truth, known, up_to_sign=False)
    left = torch.ones(len(truth), dtype=torch.bool)
    left[pairs.truth_indices[pairs.errors < within]] = False
    if not bool(left.any()):
        raise InputError(f"all {len(truth)} true samples were known; valid: at least one that was not")
    return left.nonzero().squeeze(1)


def random_directions(truth: Tensor, seed: int) -> Tensor:
    """Draws as many Gaussian directions as there are true samples, and gives them the mean norm of those."""
    drawn = torch.randn(truth.shape, dtype=truth.dtype, generator=generator_for(seed, "random baseline"))  # (n, d)
    return on_sphere(drawn, float(truth.norm(dim=1).mean()))
