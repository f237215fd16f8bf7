"""Samples as pictures that HTML can carry: which shapes are pictures, their range of values, and PNG data URIs."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence

import torch
from PIL import Image

from exhume.errors import InputError

PNG = "data:image/png;base64,"
_CHANNELS = (1, 3)
_SMALLEST_SIDE = 4  # below this, what looks like (channels, height, width) is hardly a picture
_ROUNDING = 1e-4  # a pixel so little outside [0, 1] is rounding, not an unknown range


def shape_of_picture(input_shape: Sequence[int]) -> tuple[int, int, int] | None:
    """Decides whether samples of this shape can be drawn: (channels, height, width), or None if they cannot."""
    shape = tuple(int(side) for side in input_shape)
    if len(shape) == 2:
        shape = (1, *shape)
    if len(shape) != 3 or shape[0] not in _CHANNELS or min(shape[1:]) < _SMALLEST_SIDE:
        return None
    return shape[0], shape[1], shape[2]


def data_uri(picture: torch.Tensor, largest: int | None = None) -> str:
    """Encodes one picture (C, H, W) in [0, 1] as the data URI of a PNG, its longer side at most `largest` pixels."""
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
    """Draws vectors (m, d) whose pixel range is unknown: (m, C, H, W), each from its own least to its own greatest."""
    if vectors.dim() != 2 or vectors.shape[1] != math.prod(shape):
        raise InputError(
            f"vectors of shape {tuple(vectors.shape)}; valid: (m, {math.prod(shape)}) for pictures {shape}"
        )
    rows = vectors.detach().cpu().double()
    _check_finite(rows)
    if rows.shape[0] == 0:
        return rows.reshape(0, *shape).float()
    low, high = rows.amin(dim=1, keepdim=True), rows.amax(dim=1, keepdim=True)
    constant = high == low
    pixels = torch.where(constant, 0.5, (rows - low) / torch.where(constant, 1.0, high - low))
    return pixels.reshape(-1, *shape).float()


def _check_finite(values: torch.Tensor) -> None:
    if not bool(torch.isfinite(values).all()):
        raise InputError("a sample to be drawn holds NaN or infinity; valid: finite numbers")


def _check_range(pixels: torch.Tensor) -> None:
    _check_finite(pixels)
    low, high = float(pixels.min()), float(pixels.max())
    if low < -_ROUNDING or high > 1 + _ROUNDING:
        raise InputError(f"a picture's pixels reach from {low:.3g} to {high:.3g}; valid: 0 to 1")
