"""The state of the exact attack's search, and how a checkpoint keeps it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

DAMPING = 0.015  # of the stochastic steps, in units of the mean Gauss-Newton matrix
REMEMBERED = 100  # subset residuals that decisions look back on


@dataclass
class SearchState:
    """Everything that the next step depends on, so that a checkpoint resumes the same search.

    Attributes:
        rows: the unknowns.
        start, step: which start, and how many stochastic steps it has made.
        wait: the step before which no other try to finish is made.
        tight: whether a try has failed.
        damping: of the stochastic steps.
        residual, recent: relative residuals of the last subset, and of those before it.
        last_try, minima, best: losses and rows that full steps have reached.
        velocity: the last step while steps have momentum, else None.
        linear: W (k, d) meanwhile, where the rows do not hold it.
        replacements: how often this start has replaced rows.
    """

    rows: torch.Tensor
    generator: torch.Generator
    start: int = 1
    step: int = 0
    wait: int = 0
    tight: bool = False
    damping: float = DAMPING
    residual: float = 1.0
    recent: list[float] = field(default_factory=list)
    last_try: float = math.inf
    minima: list[tuple[float, torch.Tensor]] = field(default_factory=list)
    best: tuple[float, torch.Tensor] | None = None
    velocity: torch.Tensor | None = None
    linear: torch.Tensor | None = None
    replacements: int = 0

    def save(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Tensors and numbers for a checkpoint."""
        tensors = {"rows": self.rows, "generator": self.generator.get_state()}
        for index, (_, rows) in enumerate(self.minima):
            tensors[f"minimum.{index}"] = rows.clone()
        if self.best is not None:
            tensors["best"] = self.best[1].clone()  # it may be the rows themselves, and safetensors shares nothing
        for name, carried in (("velocity", self.velocity), ("linear", self.linear)):
            if carried is not None:
                tensors[name] = carried
        numbers = {
            "start": self.start,
            "step": self.step,
            "wait": self.wait,
            "tight": self.tight,
            "damping": self.damping,
            "residual": self.residual,
            "recent": self.recent[-REMEMBERED:],
            "last_try": self.last_try if math.isfinite(self.last_try) else None,
            "minima": [loss for loss, _ in self.minima],
            "best": self.best[0] if self.best else None,
            "replacements": self.replacements,
        }
        return tensors, numbers

    @classmethod
    def load(cls, tensors: dict[str, torch.Tensor], numbers: dict[str, Any], device: torch.device) -> SearchState:
        """The state that `save` wrote."""
        generator = torch.Generator()
        generator.set_state(tensors["generator"])
        minima = [(loss, tensors[f"minimum.{i}"].to(device)) for i, loss in enumerate(numbers["minima"])]
        return cls(
            rows=tensors["rows"].to(device),
            generator=generator,
            start=numbers["start"],
            step=numbers["step"],
            wait=numbers["wait"],
            tight=numbers["tight"],
            damping=numbers["damping"],
            residual=numbers["residual"],
            recent=list(numbers["recent"]),
            last_try=math.inf if numbers["last_try"] is None else numbers["last_try"],
            minima=minima,
            best=None if numbers["best"] is None else (numbers["best"], tensors["best"].to(device)),
            velocity=tensors["velocity"].to(device) if "velocity" in tensors else None,
            replacements=numbers["replacements"],
            linear=tensors["linear"].to(device) if "linear" in tensors else None,
        )
