"""Images: which shapes are images, samples stretched to pixels, PNG data URIs, and blurring."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence

import torch
from PIL import Image

from exhume.errors import InputError
from exhume.support.validation import finite

PNG = "data:image/png;base64,"
_DRAWN = "a sample to be drawn"
_CHANNELS = (1, 3)
_SMALLEST_SIDE = 4  # below this, what looks like (channels, height, width) is hardly a picture
_ROUNDING = 1e-4  # a pixel so little outside [0, 1] is rounding, not an unknown range
# What a blur leaves: so many averages along a side, each one of so many shades: 8 bits a channel. From 4 x 4 exact
# averages, nearest neighbours still classify nine of ten handwritten digits.
_BLURRED_BLOCKS = 2
_BLURRED_SHADES = 4
_COARSE_SIDE = 64  # pixels


def shape_of_picture(input_shape: Sequence[int]) -> tuple[int, int, int] | None:
    """(channels, height, width) if samples of this shape are images, else None."""
    shape = tuple(int(side) for side in input_shape)
    if len(shape) == 2:
        shape = (1, *shape)
    if len(shape) != 3 or shape[0] not in _CHANNELS or min(shape[1:]) < _SMALLEST_SIDE:
        return None
    return shape[0], shape[1], shape[2]


def data_uri(picture: torch.Tensor, largest: int | None = None) -> str:
    """One image (C, H, W) in [0, 1] as the data URI of a PNG, its longer side at most `largest` pixels."""
    if picture.dim() != 3 or picture.shape[0] not in _CHANNELS or 0 in picture.shape:
        raise InputError(f"a picture of shape {tuple(picture.shape)}; valid: (1, H, W) or (3, H, W)")
    pixels = picture.detach().cpu().double()
    _check_range(pixels)
    levels = (pixels.clamp(0.0, 1.0) * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous().numpy()
    image = Image.fromarray(levels[:, :, 0] if levels.shape[2] == 1 else levels)
    if largest is not None:
        image.thumbnail((largest, largest))
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return PNG + base64.b64encode(buffer.getvalue()).decode("ascii")


def stretched(vectors: torch.Tensor, shape: tuple[int, int, int]) -> torch.Tensor:
    """Vectors (m, d) of unknown pixel range as images (m, C, H, W), each from its own smallest to its largest value."""
    if vectors.dim() != 2 or vectors.shape[1] != math.prod(shape):
        raise InputError(
            f"vectors of shape {tuple(vectors.shape)}; valid: (m, {math.prod(shape)}) for pictures {shape}"
        )
    rows = vectors.detach().cpu().double()
    finite(_DRAWN, rows)
    if rows.shape[0] == 0:
        return rows.reshape(0, *shape).float()
    low, high = rows.amin(dim=1, keepdim=True), rows.amax(dim=1, keepdim=True)
    constant = high == low
    pixels = torch.where(constant, 0.5, (rows - low) / torch.where(constant, 1.0, high - low))
    return pixels.reshape(-1, *shape).float()


def blurred(pictures: torch.Tensor) -> torch.Tensor:
    """Images (m, C, H, W) in [0, 1] made unrecognisable for good: 2 x 2 averages in four shades, interpolated.

    No sharpening brings the rest back: at most 8 bits of each channel are left.
    """
    if pictures.dim() != 4 or 0 in pictures.shape[1:]:
        raise InputError(f"pictures of shape {tuple(pictures.shape)}; valid: (m, C, H, W)")
    if pictures.shape[0] == 0:
        return pictures.clone()
    height, width = (int(side) for side in pictures.shape[2:])
    blocks = (min(_BLURRED_BLOCKS, height), min(_BLURRED_BLOCKS, width))
    averages = torch.nn.functional.adaptive_avg_pool2d(pictures, blocks)
    averages = (averages * (_BLURRED_SHADES - 1)).round() / (_BLURRED_SHADES - 1)
    return torch.nn.functional.interpolate(averages, size=(height, width), mode="bilinear", align_corners=False)


def is_coarse(uri: str) -> bool:
    """Whether an image, a data URI, has so few pixels that each should be drawn as a square."""
    if not uri.startswith(PNG):
        return False
    try:
        image = Image.open(io.BytesIO(base64.b64decode(uri.removeprefix(PNG), validate=True)))
    except (ValueError, OSError):
        return False
    return max(image.size) <= _COARSE_SIDE


def _check_range(pixels: torch.Tensor) -> None:
    finite(_DRAWN, pixels)
    low, high = float(pixels.min()), float(pixels.max())
    if low < -_ROUNDING or high > 1 + _ROUNDING:
        raise InputError(f"a picture's pixels reach from {low:.3g} to {high:.3g}; valid: 0 to 1")
