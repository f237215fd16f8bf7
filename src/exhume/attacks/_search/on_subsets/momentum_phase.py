"""The first phase of every start of the search by subsets: cheap steps with momentum on subsets of coordinates.

A Gauss-Newton step on a subset spends some fifteen passes over it on one linearisation; a step with momentum spends
two. The linear part is solved for jointly, as to project it out would cost two passes more. Where the residual stops
falling, rows that contribute less than the residual match no sample: directions from the residual replace them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from exhume.attacks._base.search_tuning import MomentumTuning, SpectralTuning
from exhume.attacks._search.spectral import spectral_rows
from exhume.equation.span import Span
from exhume.features import OneLayerFeatures
from exhume.solvers import FixedNorm, momentum_step


@dataclass(frozen=True)
class MomentumState:
    """Where the phase stands.

    Attributes:
        rows: samples, and below them the linear part if it is free.
        velocity: the last step.
        replacements: how often rows were replaced.
    """

    rows: torch.Tensor
    velocity: torch.Tensor
    replacements: int = 0


class MomentumPhase:
    """Steps with momentum.

    Args:
        equation: of the search.
        sphere: norm that the samples keep.
        spectral: how second moments are computed; None where they do not show the samples.
        max_steps: of the phase.
        tuning: of the phase.
    """

    def __init__(
        self, equation: Span, sphere: FixedNorm, spectral: SpectralTuning | None, max_steps: int, tuning: MomentumTuning
    ) -> None:
        self._tuning = tuning
        self._sphere, self._spectral, self._max_steps = sphere, spectral, max_steps
        self._unknowns = equation.num_linear  # rows of the search's own unknowns that are not samples
        if equation.nuisance.linear and not equation.nuisance.joint:
            equation = equation.with_features(equation.features, replace(equation.nuisance, joint=True))
        self._equation = equation

    def begin(self, rows: torch.Tensor) -> MomentumState:
        """The phase's first state, at rows of the search."""
        if self._equation.num_linear > self._unknowns:
            rows = torch.cat([rows, self._equation.first_linear()])
        return MomentumState(rows, torch.zeros_like(rows))

    def rows_of(self, state: MomentumState) -> torch.Tensor:
        """The unknowns of the search: without the linear part where the search projects it out."""
        return state.rows[: state.rows.shape[0] - self._equation.num_linear + self._unknowns]

    def step(
        self, state: MomentumState, coordinates: slice | torch.Tensor, damping: float
    ) -> tuple[MomentumState, float]:
        """One step on some of the coordinates, and the relative residual there before it."""
        part = self._equation.subset(coordinates)
        point = part.at(state.rows)
        velocity = momentum_step(part, point, state.velocity, damping, self._sphere)
        rows = self._sphere.retract(point.rows + velocity, point.num_samples)
        return replace(state, rows=rows, velocity=velocity), math.sqrt(point.loss)

    def is_over(self, recent: Sequence[float], step: int) -> bool:
        """Whether the residual has collapsed or the steps are spent."""
        return statistics.median(recent[-5:]) < self._tuning.collapsed or step >= self._max_steps

    def is_at_rest(self, recent: Sequence[float]) -> bool:
        """Whether the residual no longer falls."""
        tuning = self._tuning
        if len(recent) < tuning.remembered:
            return False
        before = statistics.median(recent[-tuning.remembered :][: tuning.window])
        return statistics.median(recent[-tuning.window :]) > tuning.max_left * before

    def replace_idle_rows(self, state: MomentumState, generator: torch.Generator) -> MomentumState | None:
        """Puts directions from the residual in the place of rows that match no sample; None if there are none."""
        if self._spectral is None or state.replacements >= self._tuning.replacements:
            return None
        point = self._equation.at(state.rows)
        added = self._equation.contributions(point)
        most = max(1, int(self._tuning.most_replaced * len(added)))
        idle = [int(row) for row in added.argsort()[:most] if float(added[row]) < point.loss]
        if not idle:
            return None
        features = self._equation.features
        assert isinstance(features, OneLayerFeatures)
        rows = state.rows.clone()
        found = spectral_rows(features, point.residual, len(idle), generator, self._spectral)
        rows[idle] = self._sphere.retract(found)
        return MomentumState(rows, torch.zeros_like(rows), state.replacements + 1)
