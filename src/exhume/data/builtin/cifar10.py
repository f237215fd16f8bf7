"""The CIFAR-10 room: balanced subsets of the training split, as in Appendix D of the paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from exhume.data.checks import one_of, whole_number
from exhume.data.cifar10_batches import (
    BINARY_FOLDER,
    CLASS_NAMES,
    PYTHON_FOLDER,
    Bytes,
    find_folder,
    read_batches,
    read_class_names,
)
from exhume.data.classes import LABELS, Classes, class_targets, describe_targets, resolve_classes, split_per_class
from exhume.data.dataset import Dataset
from exhume.data.locations import data_home, missing_data, resolve_home
from exhume.data.pictures import picture_dataset, shrink
from exhume.data.sources import DataSource
from exhume.errors import InputError

# Appendix D: statistics of the full training split.
CHANNEL_STATISTICS = ((0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261))
SIZES = (32, 16, 8)
_HOW_TO_GET = "run `exhume data --fetch cifar10`"


def load_cifar10(
    classes: Classes = ("frog", "truck"),
    per_class: int = 5,
    labels: str = "auto",
    standardise: str = "subset",
    norm: str = "keep",
    size: int = 32,
    home: str | Path | None = None,
) -> Dataset:
    """Selects the first `per_class` images of each class in file order, classes in the given order.

    Args:
        classes: names or indices, or "all" for the ten in official order.
        per_class: training images of each class; the next as many of each are the non-members.
        labels: "sign" (two classes: the first -1, the second +1), "one-hot" (ten columns, the 1 at the official
            class index), or "auto": the former for two classes, the latter otherwise.
        standardise: "subset", "channel" (statistics of the full training split) or "none".
        norm: "keep", or "sphere" for rows of norm sqrt(d).
        size: 32, or 16 or 8 for area-averaged images.
        home: folder that holds cifar-10-batches-bin or cifar-10-batches-py; default `data_home()`.
    """
    whole_number("per_class", per_class)
    one_of("labels", labels, LABELS)
    if size not in SIZES:
        raise InputError(f"size is {size!r}; valid: {', '.join(map(str, SIZES))}")
    folder = _folder(resolve_home(home))
    names = read_class_names(folder)
    chosen = resolve_classes(classes, names)
    groups = _collect(folder, chosen, 2 * per_class)
    split = split_per_class({names[index]: groups[index] for index in chosen}, per_class, folder)
    targets = class_targets(split.positions, labels, columns=chosen, width=len(CLASS_NAMES))
    chosen_names = [names[index] for index in chosen]
    selection = (
        f"The first {per_class} images of each class {', '.join(chosen_names)} (in that order) of the CIFAR-10 "
        f"training split in file order, {describe_targets(targets, chosen_names)}"
    )
    if size != 32:
        selection += f", area-averaged to {size}x{size}"
    return picture_dataset(
        "cifar10",
        shrink(_pixels(split.members), size),
        shrink(_pixels(split.others), size),
        targets,
        selection,
        mode=standardise,
        norm=norm,
        channel_statistics=CHANNEL_STATISTICS,
    )


def _folder(home: Path) -> Path:
    folder = find_folder(home)
    if folder is None:
        raise missing_data("CIFAR-10", f"{BINARY_FOLDER}/ and {PYTHON_FOLDER}/", home, _HOW_TO_GET)
    return folder


def _collect(folder: Path, chosen: list[int], enough: int) -> dict[int, list[Bytes]]:
    """The first `enough` images of each chosen class; later batches are not read once all are there."""
    found: dict[int, list[Bytes]] = {index: [] for index in chosen}
    for labels, pixels in read_batches(folder):
        for index, images in found.items():
            rows = np.flatnonzero(labels == index)[: enough - len(images)]
            images.extend(pixels[rows])
        if all(len(images) == enough for images in found.values()):
            break
    return found


def _pixels(images: list[Bytes]) -> torch.Tensor:
    stacked = np.stack(images) if images else np.empty((0, 3 * 32 * 32), dtype=np.uint8)
    return torch.from_numpy(stacked).reshape(-1, 3, 32, 32).to(torch.float32) / 255


def _locate() -> str | None:
    folder = find_folder(data_home())
    return None if folder is None else str(folder)


SOURCE = DataSource(
    name="cifar10",
    summary="60,000 colour pictures of 32x32 pixels in ten classes; the training split is used",
    load=load_cifar10,
    locate=_locate,
    how_to_get=_HOW_TO_GET,
)
