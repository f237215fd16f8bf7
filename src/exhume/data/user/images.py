"""Pictures: reading image files, shrinking, and the last steps that every image data set shares."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from exhume.data.checks import whole_number
from exhume.data.dataset import NORM_WORDS, ChannelStatistics, Dataset, rescale_rows, standardise
from exhume.errors import DataError, InputError, brief

_MODES = {1: "L", 3: "RGB"}
# Pillow goes by a file's content, not its name, and would hand some formats to other programs.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
# A small file may claim a huge picture.
_MOST_PIXELS = 2**26

_STANDARDISATION_WORDS = {
    "subset": "standardised by one scalar mean and one scalar unbiased standard deviation over the whole subset",
    "channel": "standardised per channel by the statistics of the full training split",
    "none": "raw pixels in [0, 1]",
}


def picture_dataset(
    name: str,
    members: torch.Tensor,
    others: torch.Tensor,
    labels: torch.Tensor,
    selection: str,
    *,
    mode: str,
    norm: str,
    channel_statistics: ChannelStatistics | None = None,
) -> Dataset:
    """Standardises selected pixels (n, C, H, W) in [0, 1] and the others with the same statistics.

    `selection` is the protocol's beginning: which samples, in which order, with which labels.
    """
    inputs, picture = standardise(members, mode, channel_statistics)
    non_members = picture.to_vectors(others.reshape(-1, *picture.shape))
    protocol = f"{selection}, flattened to d = {inputs.shape[1]}, {_STANDARDISATION_WORDS[mode]}"
    inputs, non_members = rescale_rows(inputs, norm), rescale_rows(non_members, norm)
    return Dataset(name, inputs, labels, non_members, picture, f"{protocol}{NORM_WORDS[norm]}.")


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
