"""Constraints on the norms of the unknown samples: fixed to a sphere, or free.

The unknowns are rows; the first `num_samples` of them are samples and obey the constraint, the others (the linear part,
where it is solved for jointly) do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class FixedNorm:
    """Samples stay on the sphere of this radius.

    Examples:
        >>> import torch
        >>> FixedNorm(10.0).retract(torch.tensor([[3.0, 4.0]]))
        tensor([[6., 8.]])
    """

    radius: float

    def retract(self, rows: torch.Tensor, num_samples: int | None = None) -> torch.Tensor:
        """x_i <- radius x_i / ||x_i|| for the samples; by default all rows are samples."""
        samples = rows[:num_samples]
        samples = samples * (self.radius / torch.linalg.vector_norm(samples, dim=1, keepdim=True))
        return samples if samples.shape[0] == rows.shape[0] else torch.cat([samples, rows[num_samples:]])

    def project_tangent(
        self, rows: torch.Tensor, directions: torch.Tensor, num_samples: int | None = None
    ) -> torch.Tensor:
        """The directions without their part along the samples."""
        on, along = rows[:num_samples], directions[:num_samples]
        tangent = along - on * ((on * along).sum(1, keepdim=True) / (on * on).sum(1, keepdim=True))
        return tangent if on.shape[0] == rows.shape[0] else torch.cat([tangent, directions[num_samples:]])


@dataclass(frozen=True)
class FreeNorm:
    """Norms are unknowns. They start at `start` and are kept between `low` and `high` times it; by default anywhere.

    On a subset of the coordinates norms can diverge: a search that steps on subsets needs the bounds.
    """

    start: float
    low: float = 0.0
    high: float = math.inf

    @property
    def radius(self) -> float:
        """Norm of random samples to start from."""
        return self.start

    def retract(self, rows: torch.Tensor, num_samples: int | None = None) -> torch.Tensor:
        """Scales the samples whose norms are out of bounds; by default all rows are samples."""
        if self.low == 0 and self.high == math.inf:
            return rows
        samples = rows[:num_samples]
        norms = torch.linalg.vector_norm(samples, dim=1, keepdim=True)
        samples = samples * (norms.clamp(self.low * self.start, self.high * self.start) / norms)
        return samples if samples.shape[0] == rows.shape[0] else torch.cat([samples, rows[num_samples:]])

    def project_tangent(
        self, rows: torch.Tensor, directions: torch.Tensor, num_samples: int | None = None
    ) -> torch.Tensor:
        """The directions themselves: all are allowed."""
        return directions


Norms = FixedNorm | FreeNorm
