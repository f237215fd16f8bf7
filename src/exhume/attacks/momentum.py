"""The first phase of every start of the exact attack's search: cheap steps with momentum on subsets of coordinates.

A Gauss-Newton step on a subset spends some fifteen passes over it on one linearisation; a step with momentum spends
two. The linear part is solved for jointly, as to project it out would cost two passes more. Where the residual comes to
rest, rows that are worth no more than what is left stand for no sample: directions from the residual take their place.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import torch

from exhume.attacks.floor import worths
from exhume.attacks.search_state import REMEMBERED, SearchState
from exhume.attacks.spectral import spectral_rows
from exhume.features import RowFeatureMap
from exhume.solvers import momentum_step, move, onto_sphere
from exhume.span import Span

COLLAPSED = 3e-6  # relative residual of subsets at which there is nothing left to find
# The phase ends if the median residual of so many steps is not below such a share of what it was REMEMBERED steps ago.
_WINDOW, _FALL = 25, 0.9
# How often rows are replaced in a start, and the share of them at most.
_REPLACEMENTS, _MOST_REPLACED = 4, 0.125


class Momentum:
    """Steps with momentum on the rows of a search's state.

    Args:
        span: the equation of the search.
        radius: norm that the samples keep.
        spectral: whether second moments know the samples.
        most_steps: of the phase.
    """

    def __init__(self, span: Span, radius: float, spectral: bool, most_steps: int) -> None:
        self._radius, self._spectral, self._most_steps = radius, spectral, most_steps
        self._apart = span.nuisance.linear and not span.nuisance.joint
        self._span = span.over(span.features, replace(span.nuisance, joint=True)) if self._apart else span

    def begin(self, state: SearchState) -> None:
        """Starts the phase at the state's rows."""
        state.linear = self._span.first_linear() if self._apart else None
        state.velocity, state.replacements = torch.zeros_like(self._rows(state)), 0

    def step(self, state: SearchState, coordinates: slice | torch.Tensor) -> None:
        """One step on some of the coordinates."""
        assert state.velocity is not None
        part = self._span.subset(coordinates)
        point = part.at(self._rows(state))
        state.velocity = momentum_step(part, point, state.velocity, state.damping, self._radius)
        rows = move(part, point, state.velocity, self._radius)
        if self._apart:
            state.rows, state.linear = rows[: point.num_samples], rows[point.num_samples :]
        else:
            state.rows = rows
        state.residual = math.sqrt(point.loss)

    def is_over(self, state: SearchState) -> bool:
        """Whether the residual has collapsed, has come to rest for good, or the steps are spent."""
        recent = state.recent[-REMEMBERED:]
        if statistics.median(recent[-5:]) < COLLAPSED or state.step >= self._most_steps:
            return True
        if len(recent) < REMEMBERED:
            return False
        resting = statistics.median(recent[-_WINDOW:]) > _FALL * statistics.median(recent[:_WINDOW])
        return resting and not self._replace_idle_rows(state)

    def _replace_idle_rows(self, state: SearchState) -> bool:
        """Puts directions from the residual in the place of rows that stand for no sample; False if there are none."""
        if not self._spectral or state.replacements >= _REPLACEMENTS:
            return False
        point = self._span.at(self._rows(state))
        worth = worths(point) / self._span.squared_norm
        most = max(1, int(_MOST_REPLACED * len(worth)))
        idle = [int(row) for row in worth.argsort()[:most] if float(worth[row]) < point.loss]
        if not idle:
            return False
        features = self._span.features
        assert isinstance(features, RowFeatureMap)
        found = onto_sphere(spectral_rows(features, point.residual, len(idle), state.generator), self._radius)
        state.rows = state.rows.clone()
        state.rows[idle] = found
        state.velocity = torch.zeros_like(self._rows(state))
        state.replacements, state.recent = state.replacements + 1, []
        return True

    def end(self, state: SearchState) -> None:
        """Leaves the rows to other steps."""
        state.velocity = state.linear = None

    def _rows(self, state: SearchState) -> torch.Tensor:
        return state.rows if state.linear is None else torch.cat([state.rows, state.linear])
