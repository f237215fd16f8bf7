"""Where a running attack stands, and how long it will take at most."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from exhume.support.text import duration


@dataclass(frozen=True)
class ProgressEvent:
    """Where a running attack stands.

    Attributes:
        step, total: steps of the current search; `total` is an upper limit.
        loss: of the current samples.
        passes: feature passes so far.
        samples: the current samples and, below them, other rows that a search solves for; None if it has none yet. A
            search in a subspace gives coordinates there. They are the attack's own tensor: look at them only.
        passes_left, seconds_left: until the budget is spent; infinite without one.
    """

    step: int
    total: int
    loss: float
    passes: float
    samples: torch.Tensor | None = field(default=None, compare=False)
    passes_left: float = math.inf
    seconds_left: float = math.inf


Progress = Callable[[ProgressEvent], None]


@dataclass
class Pace:
    """Tells from the events of one attack how long it will take at most; most searches end before.

    Attributes:
        elapsed: seconds since the first event of the current search.
        left: seconds until the steps of the current search or the budget are spent; infinite while that is unknown.
    """

    elapsed: float = 0.0
    left: float = math.inf
    _began: float = 0.0
    _first: ProgressEvent | None = None

    def update(self, event: ProgressEvent) -> str:
        """Takes the next event and returns it in words."""
        now, first = time.monotonic(), self._first
        if first is None or event.step < first.step or event.total != first.total:
            self._began, self._first = now, (first := event)
        self.elapsed = now - self._began
        self.left = max(min(self._limits(first, event)), 0.0)
        words = f"step {event.step:,}, loss {event.loss:.2e}, {event.passes:,.0f} "
        words += f"of {event.passes + event.passes_left:,.0f} passes" if event.passes_left < math.inf else "passes"
        return words + (f", at most {duration(self.left)} left" if 0 < self.left < math.inf else "")

    def _limits(self, first: ProgressEvent, event: ProgressEvent) -> list[float]:
        """Seconds until the time, the steps and the passes are spent, at the pace since the first event."""
        steps, passes = event.step - first.step, event.passes - first.passes
        limits = [event.seconds_left]
        if steps > 0 and event.total > event.step:
            limits.append(self.elapsed * (event.total - event.step) / steps)
        if passes > 0 and event.passes_left < math.inf:
            limits.append(self.elapsed * event.passes_left / passes)
        return limits
