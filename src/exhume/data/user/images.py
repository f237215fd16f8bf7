"""The user's own pictures: a folder of image files, and reading of single files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from exhume.data.classes import Classes, class_targets, describe_targets, random_signs, resolve_classes, split_per_class
from exhume.data.dataset import Dataset, Selection, picture_dataset
from exhume.data.registry import user_data
from exhume.errors import DataError, InputError, brief
from exhume.support.validation import whole_number

_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})


_MODES = {1: "L", 3: "RGB"}
# Pillow goes by a file's content, not its name, and would hand some formats to other programs.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
# A small file may claim a huge picture.
_MOST_PIXELS = 2**26


@user_data("folder", "your own image files: one subfolder per class, or flat")
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
    folder = Path(path).expanduser()
    groups = _groups(folder)
    flat = list(groups) == [""]
    if flat and (classes != "all" or labels != "auto"):
        raise InputError(f"{folder} is flat: it has no classes to choose or label; valid: classes 'all', labels 'auto'")
    names = list(groups)
    chosen = [names[index] for index in resolve_classes(classes, names)]
    split = split_per_class({name: groups[name] for name in chosen}, per_class, folder)
    count = len(split.members)
    if flat:
        targets = random_signs(count, seed)
        words = f"The first {count} images of the folder {folder}, random labels +-1 from seed {seed}"
    else:
        targets = class_targets(split.positions, labels, columns=range(len(chosen)))
        which = "All" if per_class is None else f"The first {per_class}"
        label_words = describe_targets(targets, chosen)
        words = f"{which} images of each subfolder {', '.join(chosen)} (in that order) of {folder}, {label_words}"
    pixels = read_pictures(split.members + split.others, channels, size)
    words += "" if size is None else f", area-averaged to {size}x{size}"
    return picture_dataset(Selection("folder", pixels[:count], pixels[count:], targets, words), standardise, norm)


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


def shrink(pixels: torch.Tensor, size: int | None) -> torch.Tensor:
    """Averages square blocks of (n, C, side, side) pixels down to (n, C, size, size)."""
    side = pixels.shape[-1]
    if size is None or size == side:
        return pixels
    whole_number("size", size)
    if side % size:
        valid = [whole for whole in range(1, side + 1) if side % whole == 0]
        raise InputError(f"size {size} does not divide the side {side}; valid: {', '.join(map(str, valid))}")
    return torch.nn.functional.avg_pool2d(pixels, side // size) if len(pixels) else pixels[..., :size, :size]


def read_picture(path: Path, channels: int = 3, size: int | None = None) -> torch.Tensor:
    """Reads an 8-bit image file as (channels, H, W) float32 in [0, 1]; greyscale becomes RGB or the reverse.

    With `size` the picture is area-averaged to size x size.
    """
    if channels not in _MODES:
        raise InputError(f"channels is {channels!r}; valid: 1, 3")
    sides = None if size is None else (whole_number("size", size),) * 2
    if not Path(path).is_file():
        raise DataError(f"{path} is not a readable image: no regular file of that name exists")
    try:
        with Image.open(path, formats=_FORMATS) as image:
            if image.mode.startswith(("I", "F")):
                raise DataError(f"{path} holds {image.mode} pixels; valid: 8-bit images")
            if image.width * image.height > _MOST_PIXELS:
                raise DataError(f"{path} is {image.height}x{image.width}; valid: at most {_MOST_PIXELS} pixels")
            picture = image.convert(_MODES[channels])
        if sides is not None:
            picture = picture.resize(sides, Image.Resampling.BOX)
    except DataError:
        raise
    except Exception as error:  # Pillow's readers of damaged files raise whatever comes
        raise DataError(f"{path} is not a readable image (truncated or damaged?): {brief(error)}") from error
    values = torch.from_numpy(np.array(picture, dtype=np.uint8)).reshape(picture.height, picture.width, channels)
    return values.permute(2, 0, 1).to(torch.float32) / 255


def read_pictures(paths: Sequence[Path], channels: int = 3, size: int | None = None) -> torch.Tensor:
    """Reads image files of one size as (n, channels, H, W)."""
    pictures = [read_picture(path, channels, size) for path in paths]
    for path, picture in zip(paths, pictures, strict=True):
        if picture.shape != pictures[0].shape:
            height, width = picture.shape[1:]
            wanted = "x".join(map(str, pictures[0].shape[1:]))
            raise DataError(f"{path} is {height}x{width}, {paths[0]} is {wanted}; give a size to bring all to one")
    return torch.stack(pictures) if pictures else torch.empty(0, channels, 0, 0)
