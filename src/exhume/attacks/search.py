"""The search of the exact attack: stochastic steps that anneal themselves, finished by full ones.

Every stochastic step works on a fresh subset of coordinates and is taken untested: first cheap ones with momentum,
then, where these come to rest too early, Gauss-Newton steps. At the truth the residual vanishes on every subset, and
the noise with it; at any other minimum the subsets disagree and shake the rows out. Once the residual is small, all
coordinates finish: Levenberg-Marquardt, then rounds that add rows from the residual's spectrum and drop the least
useful ones, which brings up samples with small coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment

from exhume.attacks.floor import stands_clear
from exhume.attacks.momentum import Momentum
from exhume.attacks.search_state import DAMPING, SearchState
from exhume.attacks.spectral import DENSE_DIM, random_rows, spectral_rows
from exhume.features import RowFeatureMap
from exhume.solvers import Inner, Patience, bounded, gauss_newton_step, levenberg_marquardt, move, onto_sphere
from exhume.span import Point, Span

# All constants below were chosen on sphere d=30, n=20 at p = 1.75dn to 5dn and CIFAR-10 n=10 at 3.25dn.
# Samples that resemble each other (raw images have cosines of 0.7 to 0.95) need more damping: a start gets this once
# its rows have such a mean |cosine|, or if it has not come below such a residual in 100 steps.
_MORE_DAMPING, _ALIKE_ABOVE, _SLOW_AFTER, _SLOW_ABOVE = 0.1, 0.4, 100, 0.3
FOUND = 3e-5  # relative residual at which the samples are found
STEPS_PER_START = 1800  # half of them with momentum at most
_CYCLE = 300  # stochastic steps after which the full equation is tried in any case
_WAIT = 60  # stochastic steps after a failed try
_RECENT = 5  # subset residuals whose median is looked at
_ROUNDS = 4
_SETTLED = 1e-3  # relative change of the loss below which two tries found the same minimum
_FIRST_TRY = Patience(steps=15, tolerance=1e-5, window=5)
_FREED = Patience(steps=40, tolerance=1e-5, window=5)
NORMS = (0.2, 4.0)  # shares of the radius that free norms stay between


@dataclass(frozen=True)
class Outcome:
    """How a search ended: the best rows, and whether they were found, reached again or left clear of a floor."""

    rows: torch.Tensor
    found: bool
    reproduced: bool
    starts: int
    steps: int
    floor: bool = False

    @property
    def settled(self) -> bool:
        """Whether the rows can be trusted."""
        return self.found or self.reproduced or self.floor


class Search:
    """Looks for `count` samples that solve the span equation.

    Args:
        span: the equation, over a feature map of the form act(V x).
        count: how many samples.
        floor_unknowns: if given, a minimum above rounding that every sample stands clear of ends the search, and this
            is how many unknowns there are; otherwise such a minimum must be reached from two starts.
        spectral: whether second moments know the samples (not for odd activations).
        radius: norm of the samples, or where to begin to look for it.
        free_norms: whether the norms are unknown too. A start stays on the sphere of that radius all the same (free
            norms make more bad minima), and every try to finish frees them; once that has failed, every other start
            goes on with free norms.
        max_starts, steps_per_start: how long to look.
        keep_going: asked before every stochastic step.
        within_budget: asked after every full step; False ends the search as soon as possible.
    """

    def __init__(
        self,
        span: Span,
        count: int,
        *,
        spectral: bool,
        floor_unknowns: int | None = None,
        radius: float,
        free_norms: bool = False,
        max_starts: int,
        steps_per_start: int = STEPS_PER_START,
        keep_going: Callable[[SearchState], bool],
        within_budget: Callable[[], bool] = lambda: True,
    ) -> None:
        assert isinstance(span.features, RowFeatureMap)
        self.span, self.count, self._spectral, self._max_starts = span, count, spectral, max_starts
        self._keep_going, self._within_budget, self._steps_per_start = keep_going, within_budget, steps_per_start
        self._features, self._floor_unknowns = span.features, floor_unknowns
        width, dim = span.features.num_features, span.features.input_dim
        self.radius, self._free_norms = radius, free_norms
        fixed = 0 if span.fixed is None else span.fixed.shape[0]
        # A subset holds about as many equations as there are unknowns, and more than the nuisance has parameters.
        share = min(0.5, max(dim * count / (width * span.num_outputs), 2 * (count + fixed + dim) / width))
        self.subset_size = min(width, max(1, int(share * width)))
        plenty = share < 0.45
        self._check_every, self._try_below = (10, 0.06) if plenty else (25, 0.03)
        self._half = steps_per_start // 2
        self._cycle = min(_CYCLE, steps_per_start - self._half)
        self._momentum = Momentum(span, radius, spectral, self._half)
        self._inner = Inner(10, 0.3 if dim > 500 else 0.1)

    def begin(self, generator: torch.Generator) -> SearchState:
        """The first start: spectral rows where second moments know the samples, random ones elsewhere."""
        if self._spectral:
            samples = spectral_rows(self._features, self.span.without_nuisance(), self.count, generator)
        else:
            samples = random_rows(self.count, self._features.input_dim, generator, self._features)
        state = SearchState(self._with_linear(samples), generator)
        self._momentum.begin(state)
        return state

    def run(self, state: SearchState) -> Outcome:
        """Searches until the residual collapses, a minimum is reached twice, or the starts are spent."""
        reproduced = False
        if state.velocity is None:  # rows that were found otherwise
            state.step = max(state.step, self._half)
        while self._keep_going(state):
            self._stochastic_step(state)
            if state.step % self._check_every:
                continue
            typical = sorted(state.recent[-_RECENT:])[len(state.recent[-_RECENT:]) // 2]
            slow = state.step >= _SLOW_AFTER and typical > _SLOW_ABOVE
            if slow or likeness(state.rows[: self.count]) > _ALIKE_ABOVE:
                state.damping = _MORE_DAMPING
            if state.velocity is not None:
                if not self._momentum.is_over(state):
                    continue
                self._momentum.end(state)
                state.step = self._half
            if (typical < self._try_below and state.step >= state.wait) or (state.step - self._half) % self._cycle == 0:
                point = self._try_to_finish(state)
                if math.sqrt(point.loss) < FOUND:
                    return Outcome(point.rows, True, False, state.start, state.step)
                if self._floor_unknowns is not None and stands_clear(self.span, point, self._floor_unknowns):
                    return Outcome(point.rows, False, False, state.start, state.step, floor=True)
                if abs(point.loss - state.last_try) < _SETTLED * point.loss:
                    reproduced = any(
                        same_minimum(point.loss, point.samples, loss, rows[: self.count]) for loss, rows in state.minima
                    )
                    if reproduced:
                        break
                    state.minima.append((point.loss, point.rows))
                    state.step = self._steps_per_start
                state.last_try = point.loss
            if state.step >= self._steps_per_start and not self._restart(state):
                break
        rows = state.best[1] if state.best else state.rows
        return Outcome(rows, False, reproduced, state.start, state.step)

    def _stochastic_step(self, state: SearchState) -> None:
        """One step on a fresh subset of coordinates."""
        drawn = self._draw(state.generator)
        if state.velocity is not None:
            self._momentum.step(state, drawn)
        else:
            self._gauss_newton_step(state, drawn)
        state.step += 1
        state.recent.append(state.residual)

    def _gauss_newton_step(self, state: SearchState, drawn: slice | torch.Tensor) -> None:
        part = self.span.subset(drawn)
        point = part.at(state.rows)
        inner = Inner(self._inner.max_steps, min(self._inner.tolerance, 0.1)) if state.tight else self._inner
        radius = None if self._freed(state) else self.radius
        step, _ = gauss_newton_step(part, point, state.damping, inner, radius)
        rows = move(part, point, step, radius)
        state.rows = bounded(rows, self.count, self.radius, NORMS) if radius is None else rows
        state.residual = math.sqrt(point.loss)

    def _draw(self, generator: torch.Generator) -> slice | torch.Tensor:
        """A random subset: indices where gathering is cheap, else a window, which is read in place."""
        width, size = self._features.num_features, self.subset_size
        if self._features.input_dim <= DENSE_DIM:
            return torch.randperm(width, generator=generator)[:size]
        # Windows may stick out by half at either end and are pushed back, so that no coordinate is rare.
        first = int(torch.randint(-size // 2, width - size // 2, (1,), generator=generator))
        first = max(0, min(width - size, first))
        return slice(first, first + size)

    def _try_to_finish(self, state: SearchState) -> Point:
        """Full Levenberg-Marquardt and rounds from here; the state goes on from what they reach."""
        free = self._freed(state)
        point = self.rounds(self._solve(state.rows, _FIRST_TRY, free=free), state.generator, free=free)
        state.rows, state.wait, state.tight = point.rows, state.step + _WAIT, True
        if self._free_norms and math.sqrt(point.loss) >= FOUND:
            point = self._solve(point.rows, _FREED, free=True)
            if self._freed(state):
                state.rows = bounded(point.rows, self.count, self.radius, NORMS)
        if state.best is None or point.loss < state.best[0]:
            state.best = (point.loss, point.rows)
        return point

    def _freed(self, state: SearchState) -> bool:
        """Whether this start goes on with free norms: those that are odd do, once a try on the sphere has failed.

        Samples whose norms differ widely are found so; others are found on the sphere, by the even starts.
        """
        return self._free_norms and state.tight and state.start % 2 == 1

    def rounds(self, point: Point, generator: torch.Generator, tries: int = _ROUNDS, *, free: bool = False) -> Point:
        """Adds rows from the residual's spectrum, solves, drops to `count`, solves; while it helps."""
        extra = max(3, self.count // 8)
        for _ in range(tries):
            if math.sqrt(point.loss) < FOUND or not self._within_budget():
                break
            more = onto_sphere(spectral_rows(self._features, point.residual, extra, generator), self.radius)
            rows = torch.cat([point.samples, more, point.rows[point.num_samples :]])
            patience = Patience(12, min(3e-4, 0.03 * math.sqrt(point.loss)), window=5)
            wider = self._solve(rows, patience, free=free)
            again = self._solve(drop_rows(wider, self.count), _FIRST_TRY, free=free)
            if not again.loss < 0.9 * point.loss:
                break
            point = again
        return point

    def _solve(self, rows: torch.Tensor, patience: Patience, *, free: bool = False) -> Point:
        """Levenberg-Marquardt on all coordinates, on the sphere unless the norms are freed."""
        return levenberg_marquardt(
            self.span,
            rows,
            patience,
            radius=None if free else self.radius,
            watch=lambda point: self._within_budget(),
        )

    def _restart(self, state: SearchState) -> bool:
        if state.start >= self._max_starts:
            return False
        samples = random_rows(self.count, self._features.input_dim, state.generator, self._features)
        state.rows = self._with_linear(samples)
        state.start, state.step, state.wait, state.tight = state.start + 1, 0, 0, False
        state.recent, state.last_try, state.damping = [], math.inf, DAMPING
        self._momentum.begin(state)
        return True

    def _with_linear(self, samples: torch.Tensor) -> torch.Tensor:
        samples = onto_sphere(samples, self.radius)
        return torch.cat([samples, self.span.first_linear()]) if self.span.num_linear else samples


def drop_rows(point: Point, count: int) -> torch.Tensor:
    """Rows left after dropping, one by one, the sample whose loss costs least: a_i^2 / [(Phi Phi^T)^-1]_ii."""
    inverse = torch.cholesky_inverse(point.gram_factor)
    weights = point.coefficients.double()
    kept = list(range(point.num_samples))
    while len(kept) > count:
        out = int((weights.square().sum(1) / inverse.diagonal()).argmin())
        rest = [index for index in range(len(kept)) if index != out]
        pivot = inverse[:, out : out + 1] / inverse[out, out]
        weights = (weights - pivot * weights[out])[rest]
        inverse = (inverse - pivot * inverse[out])[rest][:, rest]
        kept = [kept[index] for index in rest]
    return torch.cat([point.samples[kept], point.rows[point.num_samples :]])


def same_minimum(loss: float, samples: torch.Tensor, other_loss: float, others: torch.Tensor) -> bool:
    """Whether two tries ended in the same place."""
    return abs(loss - other_loss) <= 2 * _SETTLED * other_loss and agreement(samples, others) > 0.99


def likeness(samples: torch.Tensor) -> float:
    """The mean |cosine| of two different rows; 0 for a single one."""
    unit = torch.nn.functional.normalize(samples, dim=1)
    pairs = samples.shape[0] * (samples.shape[0] - 1)
    return float((unit @ unit.T).abs().fill_diagonal_(0).sum()) / max(pairs, 1)


def agreement(samples: torch.Tensor, others: torch.Tensor) -> float:
    """The median |cosine| of two sets of rows, matched one to one."""
    unit, other = (torch.nn.functional.normalize(rows.double(), dim=1) for rows in (samples, others))
    cosines = (unit @ other.T).abs().cpu()
    return float(cosines[linear_sum_assignment(-cosines.numpy())].median())
