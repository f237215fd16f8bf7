"""The product of spheres that samples live on: rows of fixed norm."""

from __future__ import annotations

import torch


def onto_sphere(rows: torch.Tensor, radius: float) -> torch.Tensor:
    """Scales every row to the given norm: x_i <- radius x_i / ||x_i||."""
    return rows * (radius / torch.linalg.vector_norm(rows, dim=1, keepdim=True))
