"""CIFAR-10: balanced subsets of the training split, as in Appendix D of the paper, from the official binary files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from exhume.data.classes import Classes, class_targets, describe_targets, resolve_classes, split_per_class
from exhume.data.dataset import Dataset, Selection, picture_dataset
from exhume.data.download import BINARY_FOLDER, RECORD_BYTES
from exhume.data.registry import data_set, find_data, numbered_files
from exhume.data.user.images import shrink
from exhume.errors import DataError, InputError
from exhume.support.validation import whole_number

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

Bytes = npt.NDArray[np.uint8]
Batch = tuple[Bytes, Bytes]  # labels (m,), pixels (m, 3072)

# Appendix D: statistics of the full training split.
CHANNEL_STATISTICS = ((0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261))
SIZES = (32, 16, 8)
_HOW_TO_GET = "run `exhume data --fetch cifar10`"


def _find_folder(home: Path) -> Path | None:
    folder = home / BINARY_FOLDER
    return folder if _batch_paths(folder) else None


@data_set(
    "cifar10",
    "60,000 colour pictures of 32x32 pixels in ten classes; the training split is used",
    _find_folder,
    _HOW_TO_GET,
)
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
        home: folder that holds cifar-10-batches-bin; default `data_home()`.
    """
    whole_number("per_class", per_class)
    if size not in SIZES:
        raise InputError(f"size is {size!r}; valid: {', '.join(map(str, SIZES))}")
    folder = find_data(_find_folder, home, f"CIFAR-10 ({BINARY_FOLDER}/)", _HOW_TO_GET)
    chosen = resolve_classes(classes, CLASS_NAMES)
    chosen_names = [CLASS_NAMES[index] for index in chosen]
    groups = _collect(folder, chosen, 2 * per_class)
    split = split_per_class(dict(zip(chosen_names, groups.values(), strict=True)), per_class, folder)
    targets = class_targets(split.positions, labels, columns=chosen, width=len(CLASS_NAMES))
    protocol = (
        f"The first {per_class} images of each class {', '.join(chosen_names)} (in that order) of the CIFAR-10 "
        f"training split in file order, {describe_targets(targets, chosen_names)}"
    )
    if size != 32:
        protocol += f", area-averaged to {size}x{size}"
    members, others = (shrink(_pixels(images), size) for images in (split.members, split.others))
    selection = Selection("cifar10", members, others, targets, protocol)
    return picture_dataset(selection, standardise, norm, CHANNEL_STATISTICS)


def _collect(folder: Path, chosen: list[int], enough: int) -> dict[int, list[Bytes]]:
    """The first `enough` images of each chosen class; later batches are not read once all are there."""
    found: dict[int, list[Bytes]] = {index: [] for index in chosen}
    for labels, pixels in _read_batches(folder):
        for index, images in found.items():
            rows = np.flatnonzero(labels == index)[: enough - len(images)]
            images.extend(pixels[rows])
        if all(len(images) == enough for images in found.values()):
            break
    return found


def _pixels(images: list[Bytes]) -> torch.Tensor:
    stacked = np.stack(images) if images else np.empty((0, 3 * 32 * 32), dtype=np.uint8)
    return torch.from_numpy(stacked).reshape(-1, 3, 32, 32).to(torch.float32) / 255


def _batch_paths(folder: Path) -> list[Path]:
    """The training batches of a folder, in the order of their numbers."""
    return numbered_files(folder, r"data_batch_(\d+)\.bin") if folder.is_dir() else []


def _read_batches(folder: Path) -> Iterator[Batch]:
    """Reads the training batches of a folder, one after the other."""
    for path in _batch_paths(folder):
        try:
            content = np.fromfile(path, dtype=np.uint8)
        except OSError as error:
            raise DataError(f"{path} is not readable: {error}") from error
        if content.size == 0 or content.size % RECORD_BYTES:
            raise DataError(
                f"{path} has {content.size} bytes; valid: a multiple of {RECORD_BYTES}, above 0 (truncated download?)"
            )
        records = content.reshape(-1, RECORD_BYTES)
        labels = records[:, 0]
        if labels.max() >= len(CLASS_NAMES):
            record = int(np.argmax(labels >= len(CLASS_NAMES)))
            raise DataError(f"{path}: record {record} has label {labels[record]}; valid: 0 to {len(CLASS_NAMES) - 1}")
        yield labels, records[:, 1:]
