"""Galleries: true pictures above recovered ones, the error under each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

from exhume import files
from exhume.errors import InputError


def save_gallery(
    path: Path,
    truth: torch.Tensor,
    recovered: torch.Tensor,
    errors: Sequence[float],
    to_pictures: Callable[[torch.Tensor], torch.Tensor],
    *,
    title: str,
    columns: int = 10,
) -> None:
    """Draws matched pairs, `columns` a row: the true picture above, the recovered below, the signed error under it.

    Args:
        path: a .png (or any format matplotlib writes).
        truth: (n, d) true samples.
        recovered: (n, d) their matches, in the same order and at the norms to draw them with.
        errors: one number a pair.
        to_pictures: vectors (n, d) to pictures (n, C, H, W) in [0, 1].
    """
    count = truth.shape[0]
    if recovered.shape != truth.shape or len(errors) != count:
        raise InputError(f"a gallery pairs {count} true samples with as many recovered ones and errors")
    columns = min(columns, count)
    blocks = -(-count // columns)
    figure, axes = plt.subplots(
        2 * blocks, columns, figsize=(0.9 * columns + 0.4, 2.15 * blocks + 0.6), squeeze=False, layout="constrained"
    )
    for axis in axes.flat:
        axis.axis("off")
    pictures = (to_pictures(truth), to_pictures(recovered))
    for index in range(count):
        block, column = divmod(index, columns)
        for line, shown in enumerate(pictures):
            axis = axes[2 * block + line][column]
            picture = shown[index].permute(1, 2, 0).cpu().numpy()
            grey = picture.shape[2] == 1
            axis.imshow(picture[:, :, 0] if grey else picture, cmap="gray" if grey else None, vmin=0, vmax=1)
            if line == 1:
                axis.set_title(f"{errors[index]:.1e}", fontsize=7, y=-0.28)
    figure.suptitle(title, fontsize=9)
    kind = path.suffix.removeprefix(".") or "png"
    try:
        files.write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=130, format=kind))
    finally:
        plt.close(figure)
