"""Running figures: one sweep over all their cells, each figure published when its last cell is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from exhume import data
from exhume.errors import DataError
from exhume.figures.base import Figure
from exhume.figures.output import Published, publish
from exhume.sweep.run import Progress, SweepProgress, run_sweep
from exhume.sweep.store import Store


def reproduce(
    figures: Sequence[Figure],
    scale: str,
    store: Store,
    folder: Path,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    retry_failed: bool = False,
    progress: Progress | None = None,
    announce: Callable[[Published], None] | None = None,
) -> list[Published]:
    """Computes what the store lacks and publishes every figure; cells that figures share are computed once.

    Interrupted and started again it goes on where it was: the store has what is done, and files depend on it alone.

    Args:
        figures: in the order in which their cells are computed.
        folder: where their files go.
        scheduler: of `run_sweep`; its workers may have data sets that are not here, so these are not looked for.
        announce: told of each figure that is published.
    """
    if scheduler is None:
        require_data(figures, scale)
    cells = {figure.name: figure.scale(scale).cells() for figure in figures}
    written: dict[str, Published] = {}

    def publish_complete() -> None:
        for figure in figures:
            if figure.name not in written and not store.counts(figure.sweep(scale)).waiting:
                written[figure.name] = publish(figure, scale, store.records(figure.sweep(scale)), folder)
                if announce is not None:
                    announce(written[figure.name])

    def heard(event: SweepProgress) -> None:
        if event.latest:
            publish_complete()
        if progress is not None:
            progress(event)

    union = [cell for figure in figures for cell in cells[figure.name]]
    run_sweep(
        union,
        store,
        sweep=sweep_of(scale),
        parts={figure.sweep(scale): cells[figure.name] for figure in figures},
        scheduler=scheduler,
        workers=workers,
        retry_failed=retry_failed,
        progress=heard,
    )
    publish_complete()
    return [written[figure.name] for figure in figures]


def sweep_of(scale: str) -> str:
    """The name of the one sweep over all figures that are run together."""
    return f"reproduce-{scale}"


def require_data(figures: Iterable[Figure], scale: str) -> None:
    """Raises a DataError if a data set that the figures need is not on this machine; says how to get it."""
    chosen = list(figures)
    absent = {info.name: info for info in data.available() if not info.found}
    lacking = {figure.name: sorted(data_of(figure, scale) & set(absent)) for figure in chosen}
    needed = sorted({name for names in lacking.values() for name in names})
    if not needed:
        return
    lines = [f"data set {name} is not on this machine; to get it: {absent[name].how_to_get}" for name in needed]
    lines.append(f"needed by {', '.join(name for name, names in lacking.items() if names)}")
    others = [name for name, names in lacking.items() if not names]
    if others:
        lines.append(f"without it: exhume reproduce {' '.join(others)}")
    raise DataError("\n".join(lines))


def data_of(figure: Figure, scale: str) -> set[str]:
    """The data sets that a figure needs."""
    return {spec.name for grid in figure.scale(scale).grids for spec in grid.data}


def expected_minutes(figures: Iterable[Figure], scale: str) -> float:
    """What some figures take together on two cores: cells that they share count once."""
    seen: set[str] = set()
    total = 0.0
    for figure in figures:
        keys = {cell.key for cell in figure.scale(scale).cells()}
        total += figure.scale(scale).minutes * len(keys - seen) / max(len(keys), 1)
        seen |= keys
    return total
