"""How long a sweep will still take, from the cells that are done."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable

from exhume.sweep.cell import Cell


class TimeLeft:
    """Expects a cell to take as long as the mean of the most similar cells that are done.

    The same configuration with other seeds is most similar; then the same attack on the same kind of victim and data;
    then any cell.
    """

    def __init__(self) -> None:
        self._waiting: Counter[tuple[Hashable, ...]] = Counter()
        self._seen: defaultdict[Hashable, list[float]] = defaultdict(lambda: [0.0, 0.0])  # seconds, cells
        self._kinds: dict[str, tuple[Hashable, ...]] = {}

    def expect(self, cell: Cell, times: int = 1) -> None:
        """The cell is still to be done; -1 takes that back."""
        self._waiting[self._kinds_of(cell)] += times

    def learn(self, cell: Cell, seconds: float) -> None:
        """It took so long."""
        for kind in self._kinds_of(cell):
            total = self._seen[kind]
            total[0] += seconds
            total[1] += 1

    def seconds(self, running: Iterable[tuple[Cell, float]], workers: int) -> float | None:
        """The seconds left on so many workers; None as long as nothing is done.

        Args:
            running: cells that are expected and under way, and for how long.
            workers: how many cells are computed at a time.
        """
        if not self._seen:
            return None
        work, longest = 0.0, 0.0
        waiting = self._waiting.copy()
        for cell, elapsed in running:
            kinds = self._kinds_of(cell)
            waiting[kinds] -= 1
            expected = self._expected(kinds)
            # Of what is overdue nothing is known but that it takes long: as long again.
            left = expected - elapsed if elapsed < expected else elapsed
            work, longest = work + left, max(longest, left)
        for kinds, count in waiting.items():
            if count > 0:
                expected = self._expected(kinds)
                work, longest = work + count * expected, max(longest, expected)
        return max(work / max(workers, 1), longest)

    def _expected(self, kinds: tuple[Hashable, ...]) -> float:
        for kind in kinds:
            if kind in self._seen:
                seconds, cells = self._seen[kind]
                return seconds / cells
        return 0.0

    def _kinds_of(self, cell: Cell) -> tuple[Hashable, ...]:
        if cell.key not in self._kinds:
            config = cell.to_json()
            del config["seed"]
            alike = (cell.data.name, cell.victim.kind, cell.attack.method)
            self._kinds[cell.key] = (json.dumps(config, sort_keys=True), alike, None)
        return self._kinds[cell.key]
