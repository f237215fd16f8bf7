"""The annealed phase of a start: steps with momentum on random subsets of coordinates, long at first, then shorter.

Near the wall the span equation of several outputs has many spurious minima, and at almost all of them no row is near a
sample. Long steps on subsets do not come to rest there: the rows fluctuate, the less the shorter the steps. In between,
at a length that differs from problem to problem, rows near samples come about and stay, because at the samples the
residual vanishes on every subset and the fluctuations with it. So the length falls slowly through all of that range.

Small problems are annealed from several random rows at once, which share the subsets: their matrix products are so
small that calls would cost more than the products. A row that two runs agree on is most likely near a sample, even if
neither run has found many. So the next phases keep such rows, exchange them between the runs and draw the others anew,
and begin with shorter steps, which do not drive rows away from samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from exhume.attacks._base.output_tuning import AnnealingTuning
from exhume.attacks._base.tuning import Tuning
from exhume.attacks._search.schedule import random_coordinates
from exhume.attacks._search.spectral import random_rows
from exhume.equation.norms import Norms
from exhume.equation.span import Span
from exhume.features import OneLayerFeatures

_SHARE = 0.3  # of the last step that the next one keeps; without it as many runs found the samples
_OF_LAST = 0.2  # weight of the last subset in the mean residual


@dataclass(frozen=True)
class AnnealingState:
    """Where the phase stands, with r runs side by side.

    Attributes:
        rows: the samples of every run, (r, n, d).
        velocity: the last step, (r, n, d).
        residuals: mean relative residuals on the last subsets, (r,).
        hot: rate of the first step.
        cycle: how often rows were drawn anew.
        before: least residual of the last phase from the same random rows; infinity for the first one.
        step, max_steps: made, and to make.
    """

    rows: torch.Tensor
    velocity: torch.Tensor
    residuals: torch.Tensor
    hot: float
    cycle: int
    before: float
    step: int
    max_steps: int

    @property
    def best(self) -> torch.Tensor:
        """The rows (n, d) of the run with the least residual."""
        return self.rows[int(self.residuals.argmin())]


class Annealing:
    """Steps whose rate falls linearly.

    Args:
        equation: of features act(V x), on all coordinates.
        count: how many samples.
        norms: constraint on their norms.
        tuning: of the attack.
    """

    def __init__(self, equation: Span, count: int, norms: Norms, tuning: Tuning) -> None:
        features = equation.features
        assert isinstance(features, OneLayerFeatures)
        self._equation, self._features, self._count, self._norms = equation, features, count, norms
        self._tuning, self._gathered_dim = tuning.annealing, tuning.spectral.dense_dim
        fixed = 0 if equation.fixed is None else len(equation.fixed)
        # Every output spends one coordinate on each coefficient; what is left are equations for the directions.
        per_output = self._tuning.equations * count * (features.input_dim - 1) / equation.num_outputs
        self._size = min(count + fixed + math.ceil(per_output), features.num_features)
        products = count * features.input_dim * self._size
        self._runs = min(self._tuning.most_runs, max(1, self._tuning.small_product // products))

    def begin(self, generator: torch.Generator, last: AnnealingState | None = None) -> AnnealingState:
        """The first state of the phase after `last`: rows that its runs agree on, as long as the least residual falls.

        Then random rows again, with more steps, as slower annealing finds more.
        """
        tuning, shape = self._tuning, (self._runs, self._count, self._features.input_dim)
        rows = random_rows(self._runs * self._count, self._features.input_dim, generator, self._features)
        rows = self._norms.retract(rows).view(shape)
        cycle, hot, before = 0 if last is None else last.cycle + 1, tuning.hot, math.inf
        if last is not None and self._runs > 1 and float(last.residuals.min()) < last.before:
            cycle, hot, before = last.cycle, tuning.warm, float(last.residuals.min())
            rows = crossed(last, rows, tuning, generator)
        steps = min(tuning.steps * 2**cycle, tuning.most_steps)
        return AnnealingState(
            rows, torch.zeros_like(rows), rows.new_ones(self._runs), hot, cycle, before, step=0, max_steps=steps
        )

    def advance(self, state: AnnealingState, generator: torch.Generator) -> AnnealingState:
        """One step of every run on a random subset. Two passes over it."""
        tuning = self._tuning
        subset = random_coordinates(self._features, self._size, self._gathered_dim, generator)
        gained, residuals = newton_steps(self._equation.subset(subset), state.rows, tuning.damping)
        rate = state.hot + (tuning.cold - state.hot) * state.step / state.max_steps
        rows = state.rows.flatten(0, 1)
        velocity = self._norms.project_tangent(rows, (_SHARE * state.velocity + rate * gained).flatten(0, 1))
        rows = self._equation.coordinates.broadcast(self._norms.retract(rows + velocity))
        mean = _OF_LAST * residuals + (1 - _OF_LAST) * state.residuals
        return replace(
            state,
            rows=rows.view_as(state.rows),
            velocity=velocity.view_as(state.rows),
            residuals=mean,
            step=state.step + 1,
        )

    def is_over(self, state: AnnealingState) -> bool:
        """Whether some run is near the samples or the steps are spent."""
        return state.step >= state.max_steps or float(state.residuals.min()) < self._tuning.near


def crossed(
    last: AnnealingState, rows: torch.Tensor, tuning: AnnealingTuning, generator: torch.Generator
) -> torch.Tensor:
    """Rows (r, n, d) for the runs of another phase, of which each continues one of the better half of the last one.

    It keeps the rows that another run agrees with, and takes over such rows of other runs that it does not have, each
    with a probability, those with most agreement first. What is missing is taken from `rows`.
    """
    runs, count, dim = last.rows.shape
    unit = torch.nn.functional.normalize(last.rows, dim=2).view(-1, dim)
    cosines = unit @ unit.T  # (r n, r n)
    agreeing = (cosines.view(-1, runs, count).amax(2) > tuning.agree).sum(1) - 1
    confirmed = agreeing.argsort(descending=True)[: int((agreeing > 0).sum())].tolist()
    better = last.residuals.argsort()[: (runs + 1) // 2].tolist()
    children = rows.clone()
    for run, child in enumerate(children):
        parent = better[run % len(better)]
        chosen = [row for row in confirmed if row // count == parent]
        offered = (torch.rand(len(confirmed), generator=generator) < tuning.taken_over).tolist()
        for row in (row for row, is_offered in zip(confirmed, offered, strict=True) if is_offered):
            if len(chosen) < count and not bool((cosines[row, chosen] > tuning.same).any()):
                chosen.append(row)
        child[: len(chosen)] = last.rows.view(-1, dim)[chosen]
    return children


def newton_steps(part: Span, rows: torch.Tensor, damping: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(H + damping diag H)^-1 J^T P Theta for every run, (r, n, d), and relative residuals (r,).

    H (n, n) is what the Gauss-Newton matrix concentrates on, `Span.mean_normal`: the closed form serves many runs
    for the price of small matrices. A run whose features depend on each other stays where it is.

    Args:
        part: the equation on the coordinates that are read.
        rows: candidates, (r, n, d).
        damping: share of the diagonal of H.
    """
    features = part.features
    assert isinstance(features, OneLayerFeatures)
    runs, count, dim = rows.shape
    at = features.linearise(rows.flatten(0, 1))
    phi, theta = at.features, part.without_nuisance()
    if part.basis is not None:  # known samples
        phi = phi - part.basis.combine(part.basis.solve(part.basis.moments(phi)))
    phi = phi.view(runs, count, -1)
    sums = part.coordinates.sum(phi @ torch.cat([phi.mT, theta.T.expand(runs, -1, -1)], 2))  # (r, n, n + k)
    factor = _cholesky(sums[:, :, :count], part.ridge)
    weights = torch.cholesky_solve(sums[:, :, count:], factor)  # A, (r, n, k)
    residual = theta - weights.mT @ phi  # (r, k, p)
    gradient = at.vjp((weights @ residual).flatten(0, 1)).view_as(rows)
    unit = torch.nn.functional.normalize(rows, dim=2)
    kernel = features.activation.slope_kernel(unit @ unit.mT).to(rows) * (features.num_features / dim)
    normal = weights @ weights.mT * kernel
    normal = normal + damping * torch.diag_embed(normal.diagonal(dim1=1, dim2=2))
    step = torch.cholesky_solve(gradient, _cholesky(normal, part.ridge))
    sound = torch.isfinite(step).flatten(1).all(1)
    losses = part.coordinates.sum(residual.square().sum((1, 2))) / part.squared_norm
    return torch.where(sound[:, None, None], step, 0.0), torch.where(sound, losses.sqrt(), 1.0)


def _cholesky(matrices: torch.Tensor, ridge: float) -> torch.Tensor:
    """Cholesky factors of matrices (r, n, n), a share of each one's mean diagonal added."""
    added = ridge * matrices.diagonal(dim1=1, dim2=2).mean(1)
    return torch.linalg.cholesky_ex(matrices + added[:, None, None] * torch.eye(matrices.shape[1]).to(matrices))[0]
