"""Points whose features correlate most with a residual: ascent from many starts at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from exhume.attacks._base.greedy_tuning import AscentTuning
from exhume.equation.norms import Norms
from exhume.features import FeatureMap

# Numbers in an array over starts and features that are computed at a time, so that they stay in the cache.
_AT_ONCE = 2**17
# Share of a feature's squared size below which what is outside of a span is rounding of float32.
_LEAST_OUTSIDE = 1e-9


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

    def climb(
        self, residual: torch.Tensor, starts: torch.Tensor, spanned: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The best points (m, d) from starts (s, d), and q there (m,), 0 where phi is not finite.

        After every stage but the last only the best share of the points goes on. With an orthonormal basis `spanned`
        (p, b) of what other rows and their moves explain already, and R orthogonal to it, phi counts without its part
        in there: q is then 1 where one sample alone is missing, however much of its feature the others imitate.
        """
        residual = (residual / residual.norm()).to(self.features.dtype)
        spanned = residual.new_zeros((residual.shape[1], 0)) if spanned is None else spanned.to(residual)
        most = max(1, _AT_ONCE // self.features.num_features)
        points, values = starts.to(self.features.dtype), starts.new_zeros(len(starts))
        curvature = self._curvature(points[: self.tuning.probes], spanned)
        for stage, steps in enumerate(self.tuning.steps):
            if stage:
                points = points[values.argsort(descending=True)[: max(1, int(self.tuning.kept * len(points)))]]
            parts = [self._climb((residual, spanned), part, steps, curvature) for part in points.split(most)]
            points, values = (torch.cat(each) for each in zip(*parts, strict=True))
        return points, values

    def _climb(
        self, shown: tuple[torch.Tensor, torch.Tensor], starts: torch.Tensor, steps: int, curvature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        points = starts.to(self.features.dtype)
        longest = self.tuning.longest * math.sqrt(points.shape[1]) * float(points.std())
        for _ in range(steps):
            at = self.features.linearise(points)
            value, along = _value(*shown, at.features)
            # Half the gradient of q; that of log q over four times the curvature leads to the top of a bump.
            step = at.vjp(along) / (curvature * value + 1e-30)[:, None]
            size = step.norm(dim=1, keepdim=True)
            step = self.tuning.damping * step * (longest / size.clamp_min(longest))
            points = self.norms.retract(points + torch.where(step.isfinite().all(1, keepdim=True), step, 0.0))
        return points, _value(*shown, self.features.forward(points))[0]

    def _curvature(self, points: torch.Tensor, spanned: torch.Tensor) -> float:
        """The mean of ||J v||^2 / ||phi||^2 over directions v of unit length: that of a bump at its top."""
        at = self.features.linearise(points)
        directions = points.roll(1, 0) - points if len(points) > 1 else torch.ones_like(points)
        directions = directions / directions.norm(dim=1, keepdim=True).clamp_min(1e-30)
        moves, features = (_outside(each, spanned) for each in (at.jvp(directions), at.features))
        shares = moves.square().sum(1) / features.square().sum(1)
        return float(shares[shares.isfinite()].mean()) or 1.0


def _value(residual: torch.Tensor, spanned: torch.Tensor, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """q, and half its derivative in the features."""
    shown, outside = features @ residual.T, _outside(features, spanned)  # (s, k), (s, p)
    norms = torch.linalg.vector_norm(outside, dim=1).square()
    if spanned.shape[1]:
        norms = torch.maximum(norms, _LEAST_OUTSIDE * features.square().sum(1))
    norms = norms.clamp_min(1e-30)
    value = (shown.square().sum(1) / norms).nan_to_num(0.0, 0.0, 0.0)
    return value, torch.addmm(outside * (-value / norms)[:, None], shown / norms[:, None], residual)


def _outside(features: torch.Tensor, spanned: torch.Tensor) -> torch.Tensor:
    return features - (features @ spanned) @ spanned.T if spanned.shape[1] else features


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
