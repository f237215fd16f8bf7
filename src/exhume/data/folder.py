"""The guest room for pictures: any folder of image files."""

from __future__ import annotations

from pathlib import Path

from exhume.data.checks import one_of
from exhume.data.classes import (
    LABELS,
    Classes,
    class_targets,
    describe_targets,
    random_signs,
    resolve_classes,
    split_per_class,
)
from exhume.data.dataset import Dataset
from exhume.data.pictures import picture_dataset, read_pictures
from exhume.data.sources import DataSource
from exhume.errors import DataError, InputError

_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})


def load_folder(
    path: str | Path,
    classes: Classes = "all",
    per_class: int | None = None,
    labels: str = "auto",
    standardise: str = "subset",
    norm: str = "keep",
    size: int | None = None,
    channels: int = 3,
    seed: int = 0,
) -> Dataset:
    """Reads the images of a folder in the order of their file names.

    Args:
        path: the folder; one subfolder per class, or images only (flat).
        classes: subfolders by name or by index in alphabetical order; a flat folder has none to choose.
        per_class: training images of each subfolder (of the whole folder, if flat); the next as many are the
            non-members. None trains on all.
        labels: as for cifar10, one-hot with a column per chosen class. A flat folder gets random +-1 from `seed`.
        standardise: "subset" or "none".
        norm: "keep", or "sphere" for rows of norm sqrt(d).
        size: brings all images to size x size by area; without it all must have one size.
        channels: 3 for colour, 1 for grey.
        seed: of the random labels of a flat folder; nothing else uses it.
    """
    one_of("labels", labels, LABELS)
    folder = Path(path).expanduser()
    groups = _groups(folder)
    flat = list(groups) == [""]
    if flat and (classes != "all" or labels != "auto"):
        raise InputError(f"{folder} is flat: it has no classes to choose or label; valid: classes 'all', labels 'auto'")
    names = list(groups)
    chosen = [names[index] for index in resolve_classes(classes, names)]
    members, positions, others = _split({name: groups[name] for name in chosen}, per_class, folder)
    if flat:
        targets = random_signs(len(members), seed)
        words = f"The first {len(members)} images of the folder {folder}, random labels +-1 from seed {seed}"
    else:
        targets = class_targets(positions, labels, columns=range(len(chosen)), width=len(chosen))
        count = "All" if per_class is None else f"The first {per_class}"
        label_words = describe_targets(targets, chosen)
        words = f"{count} images of each subfolder {', '.join(chosen)} (in that order) of {folder}, {label_words}"
    pixels = read_pictures(members + others, channels, size)
    words += "" if size is None else f", area-averaged to {size}x{size}"
    training, rest = pixels[: len(members)], pixels[len(members) :]
    return picture_dataset("folder", training, rest, targets, words, mode=standardise, norm=norm)


def _split(
    groups: dict[str, list[Path]], per_class: int | None, folder: Path
) -> tuple[list[Path], list[int], list[Path]]:
    if per_class is not None:
        split = split_per_class(groups, per_class, folder)
        return split.members, split.positions, split.others
    members = [image for images in groups.values() for image in images]
    positions = [position for position, images in enumerate(groups.values()) for _ in images]
    return members, positions, []


def _groups(folder: Path) -> dict[str, list[Path]]:
    """The image files of each subfolder that has any; of a flat folder under the name ""."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; give `path` a folder of images or of one subfolder per class")
    images = _images(folder)
    subfolders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    groups = {subfolder.name: found for subfolder in subfolders if (found := _images(subfolder))}
    if images and groups:
        raise DataError(f"{folder} holds images ({images[0].name}) beside class subfolders; valid: one or the other")
    if not images and not groups:
        raise DataError(f"{folder} holds no images; valid endings: {', '.join(sorted(_SUFFIXES))}")
    return groups or {"": images}


def _images(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in _SUFFIXES and path.is_file() and not path.name.startswith(".")
    )


SOURCE = DataSource(
    name="folder",
    summary="your own image files: one subfolder per class, or flat",
    load=load_folder,
    locate=lambda: "wherever `path` points",
    how_to_get="give the option path",
)
