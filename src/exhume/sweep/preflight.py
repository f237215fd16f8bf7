"""Before a sweep: data that do not load and networks that cannot be built are found while nothing has run yet."""

from __future__ import annotations

from collections.abc import Sequence

from exhume.data import Dataset
from exhume.errors import DataError, InputError
from exhume.sweep.cell import DataSpec, NetworkSpec
from exhume.sweep.grid import Grid
from exhume.victims.sizes import features_for, network_for, outputs_for


def check(grid: Grid, elsewhere: bool = False) -> None:
    """Loads every data set and builds every network once; raises one error that names the fields.

    Args:
        grid: whose names and numbers are right already.
        elsewhere: whether the cells run on other machines, which may have data that are not here.
    """
    problems: list[str] = []
    missing: list[str] = []
    for index, spec in enumerate(grid.data):
        place = _place("data", index, grid.data)
        try:
            training = spec.load(grid.seeds[0])
        except InputError as error:
            problems.append(f"{place}: {error}")
        except DataError as error:
            missing += [] if elsewhere else [f"{place}: {error}"]
        else:
            problems += _unbuildable(grid, spec, training)
    if problems:
        raise InputError("\n".join([*problems, *missing]))
    if missing:
        raise DataError("\n".join(missing))


def _unbuildable(grid: Grid, spec: DataSpec, training: Dataset) -> list[str]:
    problems = []
    widths = grid.features or [
        features_for(ratio, training.inputs, outputs_for(training.labels)) for ratio in grid.ratio or ()
    ]
    for index, victim in enumerate(grid.victim):
        if isinstance(victim, NetworkSpec):
            try:
                network_for(
                    victim.kind,
                    training.inputs,
                    training.labels,
                    image_shape=training.picture.shape if training.picture else None,
                    features=min(widths),
                    settings=victim.settings,
                    seed=0,
                )
            except InputError as error:
                problems.append(f"{_place('victim', index, grid.victim)}, on {spec.name}: {error}")
    return problems


def _place(field: str, index: int, listed: Sequence[object]) -> str:
    return f"{field}[{index}]" if len(listed) > 1 else field
