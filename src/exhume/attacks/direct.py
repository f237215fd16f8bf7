"""The direct search: Levenberg-Marquardt on all coordinates from random rows, for features of any kind.

Several outputs leave the landscape so benign that random rows find the samples in a few dozen steps. A trained body has
drifted features, so that the residual ends above rounding, at a floor that every sample stands clear of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from exhume.attacks import last_sample
from exhume.attacks.floor import stands_clear
from exhume.attacks.search import FOUND, Outcome, drop_rows
from exhume.attacks.spectral import random_rows, spectral_rows
from exhume.features import CountedFeatures
from exhume.solvers import Course, Inner, Patience, levenberg_marquardt, onto_sphere
from exhume.span import Point, Span

STEPS_PER_START = 150
_PATIENCE = Patience(STEPS_PER_START, tolerance=1e-6, window=4, fall=0.995)
_ON_SPHERE = Patience(STEPS_PER_START // 2, tolerance=1e-6, window=3, fall=0.97)
_INNER = Inner(15, 0.1)
# Below this relative residual most samples are found, and rounds of adding and dropping rows bring up the others.
_NEAR = 0.15
_ROUNDS = 4
_WIDER = Patience(15, tolerance=1e-6, window=4, fall=0.97)


@dataclass
class DirectState:
    """Everything that the next step depends on, so that a checkpoint resumes the same search."""

    rows: torch.Tensor
    generator: torch.Generator
    start: int = 1
    step: int = 0
    residual: float = 1.0
    course: Course = field(default_factory=Course)
    best: tuple[float, torch.Tensor] | None = None
    freed: bool = False

    def save(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Tensors and numbers for a checkpoint."""
        tensors = {"rows": self.rows.clone(), "generator": self.generator.get_state()}
        if self.best is not None:
            tensors["best"] = self.best[1].clone()
        numbers = {"start": self.start, "step": self.step, "residual": self.residual, "course": asdict(self.course)}
        return tensors, numbers | {"best": self.best[0] if self.best else None, "freed": self.freed}

    @classmethod
    def load(cls, tensors: dict[str, torch.Tensor], numbers: dict[str, Any], device: torch.device) -> DirectState:
        """The state that `save` wrote."""
        generator = torch.Generator()
        generator.set_state(tensors["generator"])
        best = None if numbers["best"] is None else (numbers["best"], tensors["best"].to(device))
        return cls(
            rows=tensors["rows"].to(device),
            generator=generator,
            start=numbers["start"],
            step=numbers["step"],
            residual=numbers["residual"],
            course=Course(**numbers["course"]),
            best=best,
            freed=numbers["freed"],
        )


class DirectSearch:
    """Looks for `count` samples that solve the plain span equation.

    Args:
        span: the equation, nothing free.
        count: how many samples.
        unknowns: of samples and coefficients together.
        radius: norm of the samples, or where to begin to look for it.
        free_norms: whether norms are unknown too. A start stays on the sphere of that radius until it gets no further
            (rows that may grow at once run away where a normalisation makes large inputs all alike), then frees them.
        drifted: whether features drifted, so that the search may end at a floor above rounding.
        max_starts: how many random starts.
        keep_going: asked at the start and after every accepted step.
        count_step: told of steps that the state does not hold; False ends the search.
    """

    def __init__(
        self,
        span: Span,
        count: int,
        *,
        unknowns: int,
        radius: float,
        free_norms: bool,
        drifted: bool,
        max_starts: int,
        keep_going: Callable[[DirectState], bool],
        count_step: Callable[[Point], bool],
    ) -> None:
        self.span, self.count, self._max_starts = span, count, max_starts
        self._keep_going, self._count_step = keep_going, count_step
        self._radius, self._free_norms = radius, free_norms
        self._unknowns, self._drifted = unknowns, drifted

    def begin(self, generator: torch.Generator) -> DirectState:
        """The first start."""
        return DirectState(self._start(1, generator), generator)

    def run(self, state: DirectState) -> Outcome:
        """Starts anew until the residual collapses or settles at a floor, or the starts are spent."""
        resumed = state.step > 0
        while self._keep_going(state):
            if resumed and isinstance(self.span.features, CountedFeatures):
                # The pass that a resumed run makes again was counted before it was interrupted.
                self.span.features.refund(self.count)
            resumed = False
            point, ended = self._descend(state)
            if not ended and math.sqrt(point.loss) < _NEAR:
                point = self._rounds(point, state)
            if state.best is None or point.loss < state.best[0]:
                state.best = (point.loss, point.rows)
            found = math.sqrt(point.loss) < FOUND
            floor = not ended and self._drifted and stands_clear(self.span, point, self._unknowns)
            if found or floor:
                return Outcome(point.rows, found, False, state.start, state.step, floor=not found)
            if ended or state.start >= self._max_starts:
                break
            state.start, state.step, state.course, state.residual = state.start + 1, 0, Course(), 1.0
            state.rows = self._start(state.start, state.generator)
            state.freed = False
        rows = state.best[1] if state.best else state.rows
        return Outcome(rows, False, False, state.start, state.step)

    def _rounds(self, point: Point, state: DirectState) -> Point:
        """Adds rows, solves, drops to `count` and solves again, while it helps and is needed."""
        features = self.span.features
        extra = max(2, self.count // 20)
        radius = None if self._free_norms else self._radius
        for _ in range(_ROUNDS):
            if math.sqrt(point.loss) < FOUND or stands_clear(self.span, point, self._unknowns):
                break
            if isinstance(features, CountedFeatures) and features.is_row_map:
                more = onto_sphere(spectral_rows(features, point.residual, extra, state.generator), self._radius)
            else:
                more = self._random(extra, state.generator)
            wider = self._solve(torch.cat([point.samples, more]), _WIDER, radius)
            again = self._solve(drop_rows(wider, self.count), _PATIENCE, radius)
            if not again.loss < 0.9 * point.loss:
                break
            point = again
        return point

    def _start(self, start: int, generator: torch.Generator) -> torch.Tensor:
        """Random rows; a single sample is looked for around the linear part of the weights, on either side."""
        rows, features = self._random(self.count, generator), self.span.features
        if self.count > 1 or not (isinstance(features, CountedFeatures) and features.is_row_map):
            return rows
        if last_sample.applies(self.span):
            solved = last_sample.last_sample(self.span, 1 if start % 2 else -1) if start <= 2 else None
            if solved is not None:
                return onto_sphere(solved, self._radius)
            start = max(1, start - 2)
        along = features.pull_back(self.span.without_nuisance().sum(0, keepdim=True))
        along = onto_sphere(along, self._radius) * (1 if start % 2 else -1)
        return along if start <= 2 else onto_sphere(along + rows, self._radius)

    def _random(self, count: int, generator: torch.Generator) -> torch.Tensor:
        features = self.span.features
        return onto_sphere(random_rows(count, features.input_dim, generator, features), self._radius)

    def _solve(self, rows: torch.Tensor, patience: Patience, radius: float | None) -> Point:
        return levenberg_marquardt(
            self.span, rows, patience, radius=radius, inner=_INNER, damping=1e-3, watch=self._count_step
        )

    def _descend(self, state: DirectState) -> tuple[Point, bool]:
        """One start of Levenberg-Marquardt, on the sphere and then off it; also whether the budget ended it."""
        ended, before = False, state.step - state.course.taken

        def watch(point: Point) -> bool:
            nonlocal ended
            state.rows, state.residual, state.step = point.rows, math.sqrt(point.loss), before + state.course.taken
            ended = not self._keep_going(state)
            return not ended

        def solve(patience: Patience, radius: float | None) -> Point:
            return levenberg_marquardt(
                self.span, state.rows, patience, radius=radius, inner=_INNER, watch=watch, course=state.course
            )

        if not self._free_norms:
            return solve(_PATIENCE, self._radius), ended
        if not state.freed:
            point = solve(_ON_SPHERE, self._radius)
            if ended:
                return point, ended
            state.rows, state.freed, state.course = point.rows, True, Course()
        before = state.step - state.course.taken
        return solve(_PATIENCE, None), ended
