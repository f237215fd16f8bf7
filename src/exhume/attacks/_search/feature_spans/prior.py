"""What is known of samples before the attack: a Gaussian prior, smooth or from public samples of the same kind."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from exhume.attacks._base.problem import Problem

# Standard deviations of a picture's cosine coefficients fall with this power of 1 + frequency.
_POWER = 1.2


@dataclass(frozen=True)
class Prior:
    """x = mean + T^T (s z) with z white; T is the cosine transform of pictures along channels, rows and columns.

    Attributes:
        shape: of one input; inputs that are no pictures are not transformed.
        mean: (d,).
        deviations: s, (d,).
    """

    shape: tuple[int, ...]
    mean: torch.Tensor
    deviations: torch.Tensor

    @classmethod
    def of(cls, problem: Problem) -> Prior:
        """From public samples if there are any; else zero mean, smooth pictures and the usual norm."""
        shape, public = problem.target.input_shape, problem.target.knowledge.public
        if public is not None:
            public = public.to(problem.features.device, torch.float32)
            mean = public.mean(0)
            variances = _transformed(public - mean, shape).square().mean(0)
            if len(shape) == 3:  # few samples give noisy variances; neighbouring frequencies have similar ones
                logs = functional.pad(variances.clamp_min(1e-12).log().reshape(1, *shape), (1, 1, 1, 1), "replicate")
                variances = functional.avg_pool2d(logs, 3, 1).exp().flatten()
            return cls(shape, mean, variances.sqrt().clamp_min(1e-6))
        deviations = torch.ones(math.prod(shape), device=problem.features.device)
        if len(shape) == 3:
            axes = torch.meshgrid(*(torch.arange(size) for size in shape), indexing="ij")
            deviations = (1 + torch.stack(axes).float().norm(dim=0)).pow(-_POWER).flatten().to(deviations)
        deviations = deviations * (problem.sphere.radius / deviations.norm())
        return cls(shape, torch.zeros_like(deviations), deviations)

    def rows(self, white: torch.Tensor) -> torch.Tensor:
        """z -> x, (m, d)."""
        return self.mean + _transformed(white * self.deviations, self.shape, inverse=True)

    def white(self, rows: torch.Tensor) -> torch.Tensor:
        """x -> z, (m, d)."""
        return _transformed(rows - self.mean, self.shape) / self.deviations


def _transformed(rows: torch.Tensor, shape: tuple[int, ...], inverse: bool = False) -> torch.Tensor:
    """The orthonormal cosine transform of pictures along all axes, or its inverse."""
    if len(shape) != 3:
        return rows
    values = rows.reshape(-1, *shape)
    for axis, size in enumerate(shape, 1):
        at = torch.arange(size, device=rows.device, dtype=rows.dtype)
        cosines = torch.cos(math.pi / size * (at[None] + 0.5) * at[:, None]) * math.sqrt(2 / size)
        cosines[0] /= math.sqrt(2)
        values = torch.tensordot(values, cosines.T if not inverse else cosines, ([axis], [0])).movedim(-1, axis)
    return values.flatten(1)
