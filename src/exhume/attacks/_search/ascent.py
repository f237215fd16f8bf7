"""Points whose features correlate most with a residual: ascent from many starts at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from exhume.attacks._base.greedy_tuning import AscentTuning
from exhume.equation.norms import Norms
from exhume.features import FeatureMap

# Numbers in an array over starts and features that are computed at a time; it bounds memory.
_AT_ONCE = 2**22


@dataclass(frozen=True)
class Ascent:
    """Maximises q(x) = ||R phi(x)||^2 / ||phi(x)||^2, the share of the residual R (k, p) that phi(x) explains.

    Where theta is a sum of kernel bumps around the samples, so is R phi: close to a sample with coefficient a, it is
    about a k(x - x_i). A step goes to the top of a Gaussian bump of the width that the features have on average.

    Attributes:
        features: phi, in single precision.
        norms: where samples are.
        tuning: steps.
    """

    features: FeatureMap
    norms: Norms
    tuning: AscentTuning

    @property
    def cost(self) -> float:
        """Applications of the features for each start: two a step, fewer starts from stage to stage."""
        return sum(2 * (steps + 1) * self.tuning.kept**stage for stage, steps in enumerate(self.tuning.steps))

    def climb(self, residual: torch.Tensor, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The best points (m, d) from starts (s, d), and q there (m,), 0 where phi is not finite.

        After every stage but the last only the best share of the points goes on.
        """
        residual = (residual / residual.norm()).to(self.features.dtype)
        most = max(1, _AT_ONCE // self.features.num_features)
        points, values = starts.to(self.features.dtype), starts.new_zeros(len(starts))
        curvature = self._curvature(points[: self.tuning.probes])
        for stage, steps in enumerate(self.tuning.steps):
            if stage:
                points = points[values.argsort(descending=True)[: max(1, int(self.tuning.kept * len(points)))]]
            parts = [self._climb(residual, part, steps, curvature) for part in points.split(most)]
            points, values = (torch.cat(each) for each in zip(*parts, strict=True))
        return points, values

    def _climb(
        self, residual: torch.Tensor, starts: torch.Tensor, steps: int, curvature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        points = starts.to(self.features.dtype)
        longest = self.tuning.longest * math.sqrt(points.shape[1]) * float(points.std())
        for _ in range(steps):
            at = self.features.linearise(points)
            value, along = self._value(residual, at.features)
            # Half the gradient of q; that of log q over four times the curvature leads to the top of a bump.
            step = at.vjp(along) / (curvature * value + 1e-30)[:, None]
            size = step.norm(dim=1, keepdim=True)
            step = self.tuning.damping * step * (longest / size.clamp_min(longest))
            points = self.norms.retract(points + torch.where(step.isfinite().all(1, keepdim=True), step, 0.0))
        return points, self._value(residual, self.features.forward(points))[0]

    def _value(self, residual: torch.Tensor, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """q, and half its derivative in the features."""
        shown = features @ residual.T  # (s, k)
        norms = features.square().sum(1).clamp_min(1e-30)
        value = (shown.square().sum(1) / norms).nan_to_num(0.0, 0.0, 0.0)
        return value, (shown @ residual - value[:, None] * features) / norms[:, None]

    def _curvature(self, points: torch.Tensor) -> float:
        """The mean of ||J v||^2 / ||phi||^2 over directions v of unit length: that of a bump at its top."""
        at = self.features.linearise(points)
        directions = points.roll(1, 0) - points if len(points) > 1 else torch.ones_like(points)
        directions = directions / directions.norm(dim=1, keepdim=True).clamp_min(1e-30)
        shares = at.jvp(directions).square().sum(1) / at.features.square().sum(1)
        return float(shares[shares.isfinite()].mean()) or 1.0


def distinct(
    features: torch.Tensor, values: torch.Tensor, count: int, least_share: float, most_alike: float
) -> list[int]:
    """The best points, at most so many, whose value is a share of the best one's and whose features differ.

    Args:
        features: (s, p) of the points.
        values: (s,) of the points.
        count: points at most.
        least_share: of the best value.
        most_alike: cosine between the features of two that are taken.
    """
    unit = torch.nn.functional.normalize(features, dim=1)
    chosen: list[int] = []
    for index in values.argsort(descending=True).tolist():
        if len(chosen) == count or (chosen and values[index] < least_share * values[chosen[0]]):
            break
        if not chosen or float((unit[chosen] @ unit[index]).abs().max()) < most_alike:
            chosen.append(index)
    return chosen
