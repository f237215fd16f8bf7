"""Pictures on a sheet: a grid of places, a picture with words under it, a name beside a row."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import torch
from matplotlib.figure import Figure

from exhume import files

_TITLE_LETTERS = 14  # that fit into an inch
_PLACE = (0.9, 1.075)  # inches of a picture with the words under it


def sheet(lines: int, columns: int, margin: float = 0.4) -> tuple[Figure, Any]:
    """A figure with so many empty places, and `margin` inches to the left for the names of rows."""
    drawing = Figure(figsize=(_PLACE[0] * columns + margin, _PLACE[1] * lines + 0.6), layout="constrained")
    axes = drawing.subplots(lines, columns, squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    return drawing, axes


def show(axis: Any, picture: torch.Tensor, words: str = "") -> None:
    """Draws one picture (C, H, W) in [0, 1], and words under it."""
    pixels = picture.permute(1, 2, 0).cpu().numpy()
    grey = pixels.shape[2] == 1
    axis.imshow(pixels[:, :, 0] if grey else pixels, cmap="gray" if grey else None, vmin=0, vmax=1)
    if words:
        axis.set_title(words, fontsize=7, y=-0.28)


def name_row(axis: Any, text: str) -> None:
    """Writes a row's name to the left of its first picture."""
    axis.text(-0.15, 0.5, text, transform=axis.transAxes, ha="right", va="center", fontsize=8)


def entitle(drawing: Figure, title: str) -> None:
    """Writes the title above, in lines that fit."""
    drawing.suptitle(textwrap.fill(title, int(_TITLE_LETTERS * drawing.get_figwidth())), fontsize=9)


def save(drawing: Figure, path: Path) -> None:
    """Writes the figure atomically; any format that matplotlib knows, by the suffix."""
    kind = path.suffix.removeprefix(".") or "png"
    files.write_atomically(path, lambda temporary: drawing.savefig(temporary, dpi=130, format=kind))
