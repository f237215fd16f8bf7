"""The product of spheres that samples live on: rows of fixed norm."""

from __future__ import annotations

import torch


def onto_sphere(rows: torch.Tensor, radius: float) -> torch.Tensor:
    """Scales every row to the given norm: x_i <- radius x_i / ||x_i||."""
    return rows * (radius / torch.linalg.vector_norm(rows, dim=1, keepdim=True))


def tangent(rows: torch.Tensor, directions: torch.Tensor, count: int) -> torch.Tensor:
    """Removes from the first `count` directions their part along the rows; the others pass."""
    on, along = rows[:count], directions[:count]
    flat = along - on * ((on * along).sum(1, keepdim=True) / (on * on).sum(1, keepdim=True))
    return flat if count == rows.shape[0] else torch.cat([flat, directions[count:]])


def bounded(rows: torch.Tensor, count: int, radius: float, shares: tuple[float, float]) -> torch.Tensor:
    """The first `count` rows with norms between two shares of a radius: on a few coordinates they may run away."""
    samples = rows[:count]
    norms = samples.norm(dim=1, keepdim=True)
    low, high = (share * radius for share in shares)
    return torch.cat([samples * (norms.clamp(low, high) / norms), rows[count:]])
