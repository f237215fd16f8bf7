"""The darkroom of reports: pictures blurred beyond recognition, and which to draw with square pixels."""

from __future__ import annotations

import base64
import struct

import torch

from exhume.errors import InputError
from exhume.pixels import PNG

# What survives a blur: so many averages along a side, each one of so many shades: 8 bits a channel. Of 4 x 4 exact
# averages, nearest neighbours still tell nine of ten handwritten digits.
_BLURRED_BLOCKS = 2
_BLURRED_SHADES = 4
_COARSE_SIDE = 64
_PNG_HEADER = 32  # letters of base64 that hold the width and the height


def is_coarse(uri: str) -> bool:
    """Decides whether a picture, a data URI, has so few pixels that each should be drawn as a square."""
    if not uri.startswith(PNG):
        return False
    try:
        start = base64.b64decode(uri[len(PNG) :][:_PNG_HEADER], validate=True)
    except ValueError:
        return False
    return len(start) >= 24 and max(struct.unpack(">II", start[16:24])) <= _COARSE_SIDE


def blurred(pictures: torch.Tensor) -> torch.Tensor:
    """Makes pictures (m, C, H, W) in [0, 1] unrecognisable for good: 2 x 2 averages in four shades, smoothed.

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
