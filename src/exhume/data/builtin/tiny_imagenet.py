"""Tiny-ImageNet: 64x64 pictures of 200 classes from the official folder."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from exhume.data.classes import Classes, class_targets, describe_targets, resolve_classes, split_per_class
from exhume.data.dataset import Dataset, Selection, picture_dataset
from exhume.data.registry import data_set, find_data, numbered_files
from exhume.data.user.images import read_pictures, shrink
from exhume.errors import DataError

FOLDER = "tiny-imagenet-200"
_SIDE = 64
_HOW_TO_GET = "unpack http://cs231n.stanford.edu/tiny-imagenet-200.zip there"


def _find_folder(home: Path) -> Path | None:
    folder = home / FOLDER
    return folder if (folder / "wnids.txt").is_file() else None


@data_set(
    "tiny-imagenet",
    "100,000 colour pictures of 64x64 pixels in 200 classes; the training split is used",
    _find_folder,
    _HOW_TO_GET,
)
def load_tiny_imagenet(
    classes: Classes = (2, 116),
    per_class: int = 10,
    labels: str = "auto",
    standardise: str = "subset",
    norm: str = "keep",
    size: int | None = None,
    home: str | Path | None = None,
) -> Dataset:
    """Selects the first `per_class` training images of each class, by the number in the file name.

    A class index counts from 0 in the *sorted* list of wnids.txt, the order of the folder names that image-folder
    readers use: this makes the paper's class 2 n01641577 and its class 116 n03670208. The lines of wnids.txt itself
    are in another order (there the two are lines 6 and 115).

    Args:
        classes: indices as above, or wnids.
        per_class: training images of each class; the next as many of each are the non-members.
        labels: "sign" (two classes: the first -1, the second +1), "one-hot" (one column per chosen class), or
            "auto": the former for two classes, the latter otherwise.
        standardise: "subset" or "none".
        norm: "keep", or "sphere" for rows of norm sqrt(d).
        size: a divisor of 64 for area-averaged images; default 64.
        home: folder that holds tiny-imagenet-200; default `data_home()`.
    """
    folder = find_data(_find_folder, home, f"Tiny-ImageNet ({FOLDER}/wnids.txt)", _HOW_TO_GET)
    names = _read_names(folder)
    chosen = resolve_classes(classes, names)
    groups = {names[index]: _image_paths(folder, names[index]) for index in chosen}
    split = split_per_class(groups, per_class, folder)
    targets = class_targets(split.positions, labels, columns=range(len(chosen)))
    words = [f"{index} ({names[index]})" for index in chosen]
    protocol = (
        f"The first {per_class} images (by file number) of each class {', '.join(words)} of the Tiny-ImageNet training "
        f"split, {describe_targets(targets, words)}"
    )
    if size not in (None, _SIDE):
        protocol += f", area-averaged to {size}x{size}"
    members, others = (shrink(_read(paths), size) for paths in (split.members, split.others))
    return picture_dataset(Selection("tiny-imagenet", members, others, targets, protocol), standardise, norm)


def _read(paths: list[Path]) -> torch.Tensor:
    pictures = read_pictures(paths)
    if paths and tuple(pictures.shape[2:]) != (_SIDE, _SIDE):
        raise DataError(f"{paths[0]} is {pictures.shape[2]}x{pictures.shape[3]}; valid: {_SIDE}x{_SIDE}")
    return pictures


def _read_names(folder: Path) -> list[str]:
    path = folder / "wnids.txt"
    try:
        names = sorted(path.read_text().split())
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not readable: {error}") from error
    # A wnid becomes part of a path: anything else must not.
    wrong = [name for name in names if not re.fullmatch(r"n\d+", name)]
    if wrong or not names or len(set(names)) < len(names):
        raise DataError(
            f"{path} is damaged ({wrong[0]!r} is no wnid)" if wrong else f"{path} is empty or repeats itself"
        )
    return names


def _image_paths(folder: Path, wnid: str) -> list[Path]:
    images = folder / "train" / wnid / "images"
    if not images.is_dir():
        raise DataError(f"class {wnid}: {images} does not exist; {_HOW_TO_GET}")
    return numbered_files(images, rf"{wnid}_(\d+)\.JPEG")
