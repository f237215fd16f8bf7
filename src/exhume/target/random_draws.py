"""The random numbers that a factory draws: recorded once, then drawn again under any seed without the factory.

Building a network costs far more than drawing the first numbers of its first weights. `Replay` holds the random
operations of torch that a factory ran, up to the point where enough numbers have gone into weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from exhume.target.start_test import correlation

# Numbers per seed that are compared before a model is built: enough to tell a correlation of 0.15 from chance.
# Larger values cost time in proportion (`python -m benches seeds`).
ENOUGH = 2048
# A draw has gone into a weight if they correlate by so much: a truncated normal distribution made of a uniform draw
# has 0.98, other numbers of the same count below 0.5 in all layers of at least `SMALLEST` numbers.
_SAME = 0.9
SMALLEST = 32
# Draws that fill a tensor number by number, so that fewer numbers are the first of more; in steps of 16, as torch's
# normal distribution is vectorised.
_BY_NUMBER = (torch.ops.aten.uniform_.default, torch.ops.aten.normal_.default)
_STEP = 16


@dataclass(frozen=True)
class Draw:
    """One random operation on torch's default generator.

    Attributes:
        operation, arguments, options: a call; tensors among the arguments are copies.
        weight: the layer that the numbers go to, if any.
        count: how many of them are compared, from the first on.
    """

    operation: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    weight: str = ""
    count: int = 0

    def __call__(self) -> torch.Tensor:
        """The numbers under the generator's state, which moves on."""
        return self.operation(*self.arguments, **self.options)


class _Recorder(TorchDispatchMode):
    """Keeps the random operations that run while it is active."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws: list[Draw] = []
        self.replayable = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded in func.tags and options.get("generator") is None:
            tensors = [each for each in args if isinstance(each, torch.Tensor)]
            self.replayable &= all(each.device.type == "cpu" for each in tensors)
            self.replayable &= torch.device(options.get("device") or "cpu").type == "cpu"
            copies = tuple(each.detach().clone() if isinstance(each, torch.Tensor) else each for each in args)
            self.draws.append(Draw(func, copies, options))
        return func(*args, **options)


@dataclass(frozen=True)
class Replay:
    """The draws of a factory up to those that are compared."""

    draws: tuple[Draw, ...]

    @classmethod
    def of(
        cls, build: Callable[[], object], seeds: Sequence[int], weights: Mapping[str, torch.Tensor]
    ) -> Replay | None:
        """Records a factory; None if its weights cannot be drawn again without it, as those that numpy draws.

        Args:
            build: the factory, called once under the first seed.
            seeds: seeds under which the replay must agree with the factory.
            weights: the layers that it makes under these seeds: rows (R, N_i), their first numbers at least.
        """
        torch.default_generator.manual_seed(seeds[0])
        with _Recorder() as recorder:
            build()
        try:
            replay = cls(tuple(_needed(recorder.draws, seeds[0], weights))) if recorder.replayable else None
            return replay if replay is not None and replay._agrees(seeds, weights) else None
        except RuntimeError:  # an operation that cannot be run alone
            return None

    @property
    def weights(self) -> tuple[str, ...]:
        """The layers that are drawn."""
        return tuple(draw.weight for draw in self.draws if draw.weight)

    def rows(self, seeds: Sequence[int]) -> list[torch.Tensor]:
        """The first numbers of every layer under every seed: rows (B, N_i)."""
        drawn: list[list[torch.Tensor]] = [[] for _ in self.weights]
        generator = torch.default_generator
        for seed in seeds:
            generator.manual_seed(seed)
            place = 0
            for draw in self.draws:
                numbers = draw()
                if draw.weight:
                    drawn[place].append(numbers.flatten()[: draw.count].clone())
                    place += 1
        return [torch.stack(each) for each in drawn]

    def _agrees(self, seeds: Sequence[int], weights: Mapping[str, torch.Tensor]) -> bool:
        """Whether it draws what the factory made, under every seed; and draws anything."""
        if not self.weights:
            return False
        drawn = zip(self.weights, self.rows(seeds), strict=True)
        return all(
            correlation(row, made[: len(row)]) > _SAME
            for name, rows in drawn
            for row, made in zip(rows, weights[name], strict=True)
        )


def _needed(draws: Sequence[Draw], seed: int, weights: Mapping[str, torch.Tensor]) -> list[Draw]:
    """The draws until enough numbers have gone into weights; the last one is cut short where that is possible."""
    torch.default_generator.manual_seed(seed)
    needed: list[Draw] = []
    numbers, length = 0, 0
    left = {name: rows[0] for name, rows in weights.items()}
    for draw in draws:
        drawn = draw().flatten()
        name = next((name for name, made in left.items() if _same(drawn, made)), "")
        count = min(len(left.pop(name)), ENOUGH - numbers) if name else 0
        needed.append(replace(draw, weight=name, count=count))
        if name:
            numbers, length = numbers + count, len(needed)
        if numbers >= ENOUGH:
            break
    return [*needed[: length - 1], *(_shortened(draw) for draw in needed[length - 1 : length])]


def _shortened(draw: Draw) -> Draw:
    """The same draw of no more numbers than are compared."""
    buffer, kept = draw.arguments[0], -(-draw.count // _STEP) * _STEP
    if draw.operation not in _BY_NUMBER or kept >= buffer.numel() or not buffer.is_contiguous():
        return draw
    return replace(draw, arguments=(buffer.new_empty(kept), *draw.arguments[1:]))


def _same(drawn: torch.Tensor, made: torch.Tensor) -> bool:
    """Whether numbers went into a layer, of which the first numbers are given."""
    return len(drawn) >= len(made) and correlation(drawn[: len(made)].float(), made) > _SAME
