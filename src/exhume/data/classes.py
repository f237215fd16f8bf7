"""Classes: which are chosen, which of their samples are trained on, and what their labels are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from exhume.errors import InputError, unknown_name
from exhume.support.randomness import generator_for
from exhume.support.validation import one_of, whole_number

Item = TypeVar("Item")
Classes = str | int | Sequence[str | int]
LABELS = ("auto", "sign", "one-hot")
# Longer lists of valid names than this would bury the message.
_LISTED_NAMES = 20


@dataclass(frozen=True)
class Split(Generic[Item]):
    """The samples of a balanced selection: members are trained on, others are not.

    `positions[i]` is the place of member i's class among the chosen classes.
    """

    members: list[Item]
    positions: list[int]
    others: list[Item]


def resolve_classes(classes: Classes, names: Sequence[str]) -> list[int]:
    """Turns names, indices or a text "frog,truck" into indices into `names`, in the given order; "all" is all."""
    if isinstance(classes, int):
        classes = [classes]
    given: list[str | int] = (
        [word.strip() for word in classes.split(",")] if isinstance(classes, str) else list(classes)
    )
    if given == ["all"]:
        return list(range(len(names)))
    indices = [_resolve(one, names) for one in given]
    if not indices:
        raise InputError("classes is empty; valid: one or more classes, or 'all'")
    if len(set(indices)) < len(indices):
        raise InputError(f"classes {given} name a class twice; valid: each class once")
    return indices


def _resolve(one: str | int, names: Sequence[str]) -> int:
    text = str(one)
    # A name wins over an index: a folder may well be called "2".
    if text in names:
        return names.index(text)
    if text.isdecimal() and int(text) < len(names):
        return int(text)
    if len(names) <= _LISTED_NAMES:
        raise unknown_name("class", one, names)
    raise InputError(f"unknown class {one!r}; valid: 0 to {len(names) - 1}, or a name such as {names[0]!r}")


def split_per_class(groups: Mapping[str, Sequence[Item]], per_class: int | None, where: object) -> Split[Item]:
    """Takes the first `per_class` items of every group, group after group; the next `per_class` are the others.

    Without a number all items are taken.
    """
    split: Split[Item] = Split([], [], [])
    for position, (name, items) in enumerate(groups.items()):
        count = len(items) if per_class is None else whole_number("per_class", per_class)
        if len(items) < count:
            raise InputError(f"class {name}: wanted {count} samples, available {len(items)} in {where}")
        split.members.extend(items[:count])
        split.positions.extend([position] * count)
        split.others.extend(items[count : 2 * count])
    return split


def class_targets(
    positions: Sequence[int], labels: str, columns: Sequence[int], width: int | None = None
) -> torch.Tensor:
    """Labels of samples whose classes stand at `positions` among the chosen ones.

    Args:
        positions: per sample, the place of its class in the order of choice.
        labels: "sign" gives the first class -1 and the second +1 (two classes only), "one-hot" a row with one 1,
            "auto" the former for two classes and the latter otherwise.
        columns: per chosen class, its column in a one-hot row.
        width: number of columns of a one-hot row; by default one for each chosen class.
    """
    one_of("labels", labels, LABELS)
    chosen = torch.tensor(positions, dtype=torch.int64)
    num_classes = len(columns)
    if labels == "sign" and num_classes != 2:
        raise InputError(f"labels 'sign' need exactly 2 classes, not {num_classes}; valid: 'one-hot', 'auto'")
    if labels == "sign" or (labels == "auto" and num_classes == 2):
        return 2.0 * chosen.to(torch.float32) - 1.0  # (n,)
    targets = torch.zeros(len(positions), width or num_classes)  # (n, k)
    targets[torch.arange(len(positions)), torch.tensor(list(columns))[chosen]] = 1.0
    return targets


def describe_targets(targets: torch.Tensor, names: Sequence[str]) -> str:
    """The words of a protocol for what `class_targets` made."""
    if targets.dim() == 1:
        return f"labels -1 for {names[0]} and +1 for {names[1]}"
    return f"one-hot labels of {targets.shape[1]} columns"


def random_signs(count: int, seed: int) -> torch.Tensor:
    """Labels +-1 with equal chances, from `seed`."""
    generator = generator_for(whole_number("seed", seed, least=0), "random labels")
    return 2.0 * torch.randint(0, 2, (count,), generator=generator).to(torch.float32) - 1.0
