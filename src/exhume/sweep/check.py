"""Checks before a sweep: the data sets load, the networks build, and the losses accept the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from torch import Tensor

from exhume.data import Dataset
from exhume.errors import DataError, InputError
from exhume.sweep.cell import DataSpec, NetworkSpec, RandomFeaturesSpec
from exhume.sweep.experiment import load, untrained_network
from exhume.sweep.grid import Grid
from exhume.training import losses
from exhume.victims.trained_network import features_for, outputs_for


def check(grid: Grid, elsewhere: bool = False) -> None:
    """Loads every data set, builds every network once and checks losses against labels; one error lists all problems.

    Args:
        grid: whose names and numbers are valid.
        elsewhere: whether the cells run on other machines, which may have data sets that this one lacks.
    """
    problems = [
        f"{_place('victim', index, grid.victim)}.{problem}"
        for index, victim in enumerate(grid.victim)
        if isinstance(victim, RandomFeaturesSpec)
        for problem in _square_only(victim)
    ]
    missing: list[str] = []
    for index, spec in enumerate(grid.data):
        place = _place("data", index, grid.data)
        try:
            training = load(spec, grid.seeds[0])
        except InputError as error:
            problems.append(f"{place}: {error}")
        except DataError as error:
            missing += [] if elsewhere else [f"{place}: {error}"]
        else:
            problems += _untrainable(grid, spec, training)
    if problems:
        raise InputError("\n".join([*problems, *missing]))
    if missing:
        raise DataError("\n".join(missing))


def _untrainable(grid: Grid, spec: DataSpec, training: Dataset) -> list[str]:
    """What keeps victims of the grid from being trained on these data."""
    problems = []
    labels = training.labels
    widths = grid.features or [features_for(ratio, training.inputs, outputs_for(labels)) for ratio in grid.ratio or ()]
    for index, victim in enumerate(grid.victim):
        place = _place("victim", index, grid.victim)
        # Random features train every output by itself.
        about, outputs = labels.flatten(), 1
        if isinstance(victim, NetworkSpec):
            try:
                network = untrained_network(victim, min(widths), training, seed=0)
            except InputError as error:
                problems.append(f"{place}, on {spec.name}: {error}")
                continue
            about, outputs = labels, network.num_outputs
        complaint = _complaint(victim.loss, about, outputs)
        if complaint:
            offered = get_args(type(victim).model_fields["loss"].annotation)
            valid = ", ".join(loss for loss in offered if not _complaint(loss, about, outputs)) or "none"
            problems.append(f"{place}.loss is {victim.loss!r}, on {spec.name}: {complaint}; valid: {valid}")
    return problems


def _complaint(loss: str, labels: Tensor, num_outputs: int) -> str:
    """Why a loss does not accept the labels; empty if it does."""
    try:
        losses.get(loss).targets(labels, num_outputs)
    except InputError as error:
        return str(error)
    return ""


def _square_only(victim: RandomFeaturesSpec) -> list[str]:
    """Options that random features accept only with the square loss."""
    if victim.loss == "square":
        return []
    ridge = f"ridge is {victim.ridge:g}; valid with {victim.loss} loss: 0"
    prune = f"prune_method is {victim.prune_method!r}; valid with {victim.loss} loss: magnitude"
    pruned = victim.prune is not None and victim.prune_method == "obs"
    return [*([ridge] if victim.ridge else []), *([prune] if pruned else [])]


def _place(field: str, index: int, listed: Sequence[object]) -> str:
    return f"{field}[{index}]" if len(listed) > 1 else field
