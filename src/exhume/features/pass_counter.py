"""Counting the cost of an attack: feature maps add their work, and passes are read off it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class PassCounter:
    """Work so far, in rows x features x inputs; maps derived from one (a subset, another precision) share a counter.

    Examples:
        >>> counter = PassCounter()
        >>> counter.add(rows=5, num_features=200, input_dim=10)
        >>> counter.passes(num_samples=10, num_features=200, input_dim=10)
        0.5
    """

    work: int = 0

    def add(self, rows: float, num_features: int, input_dim: int) -> None:
        """Counts an application of some features of some inputs to some rows."""
        self.work += round(rows * num_features * input_dim)

    def passes(self, num_samples: int, num_features: int, input_dim: int) -> float:
        """The work in feature passes: one is `num_samples` rows through a map of these sizes, once."""
        return self.work / (num_samples * num_features * input_dim)
