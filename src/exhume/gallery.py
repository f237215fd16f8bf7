"""Galleries: true pictures above recovered ones, the error under each."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

from exhume import files, measures
from exhume.errors import InputError
from exhume.reconstruction import Reconstruction
from exhume.scoring import Score

_TITLE_LETTERS = 14  # that fit into an inch
ToPictures = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Shown:
    """Recovered samples as they are drawn, in the order of the true ones that they are matched to.

    Attributes:
        indices: of those true samples.
        rows: (q, d) the recovered ones; norms and signs that the attack leaves open are taken from the truth.
        errors: one a row, up to sign if signs were taken.
        borrowed: what was taken: "norms", "signs".
    """

    indices: tuple[int, ...]
    rows: torch.Tensor
    errors: tuple[float, ...]
    borrowed: tuple[str, ...]


def as_shown(result: Reconstruction, judged: Score, truth: torch.Tensor) -> Shown:
    """The matched rows of a result, ready to be drawn beside the truth (n, d)."""
    matches, borrowed = judged.matches, []
    indices = tuple(match.truth_index for match in matches)
    rows = result.samples[[match.row for match in matches]].to(truth)
    errors = tuple(match.error for match in matches)
    if not result.norms_determined:
        rows = measures.on_sphere(rows, truth[list(indices)].norm(dim=1))
        borrowed.append("norms")
    if not result.signs_determined:
        flipped = torch.tensor([match.flipped for match in matches], dtype=torch.bool)
        rows = torch.where(flipped[:, None], -rows, rows)
        errors = tuple(match.error_up_to_sign for match in matches)
        borrowed.append("signs")
    return Shown(indices, rows, errors, tuple(borrowed))


def save_gallery(
    path: Path,
    truth: torch.Tensor,
    recovered: torch.Tensor,
    errors: Sequence[float],
    to_pictures: ToPictures,
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
    figure, axes = _grid(2 * blocks, columns)
    above, below = to_pictures(truth), to_pictures(recovered)
    for index in range(count):
        block, column = divmod(index, columns)
        _show(axes[2 * block][column], above[index])
        _show(axes[2 * block + 1][column], below[index], errors[index])
    _save(figure, path, title)


def save_comparison(
    path: Path,
    truth: torch.Tensor,
    lines: Mapping[str, Shown],
    to_pictures: ToPictures,
    *,
    indices: Sequence[int],
    title: str,
) -> None:
    """Draws some true pictures in the top row and below them a row for each attack, its error under every picture.

    Args:
        path: a .png (or any format matplotlib writes).
        truth: (n, d) all true samples.
        lines: what each attack recovered, by the label of its row.
        to_pictures: vectors (n, d) to pictures (n, C, H, W) in [0, 1].
        indices: the true samples to draw; one that an attack has no row for stays empty.
    """
    figure, axes = _grid(1 + len(lines), len(indices), margin=1.0)
    _label(axes[0][0], "true")
    for column, picture in enumerate(to_pictures(truth[list(indices)])):
        _show(axes[0][column], picture)
    for line, (label, shown) in enumerate(lines.items(), start=1):
        _label(axes[line][0], label)
        pictures = to_pictures(shown.rows)
        places = {index: place for place, index in enumerate(shown.indices)}
        for column, index in enumerate(indices):
            if index in places:
                _show(axes[line][column], pictures[places[index]], shown.errors[places[index]])
    _save(figure, path, title)


def _grid(lines: int, columns: int, margin: float = 0.4) -> tuple[Any, Any]:
    """A figure with so many empty places."""
    figure, axes = plt.subplots(
        lines, columns, figsize=(0.9 * columns + margin, 1.075 * lines + 0.6), squeeze=False, layout="constrained"
    )
    for axis in axes.flat:
        axis.axis("off")
    return figure, axes


def _show(axis: Any, picture: torch.Tensor, error: float | None = None) -> None:
    """Draws one picture (C, H, W), and its error under it."""
    pixels = picture.permute(1, 2, 0).cpu().numpy()
    grey = pixels.shape[2] == 1
    axis.imshow(pixels[:, :, 0] if grey else pixels, cmap="gray" if grey else None, vmin=0, vmax=1)
    if error is not None:
        axis.set_title(f"{error:.1e}", fontsize=7, y=-0.28)


def _label(axis: Any, text: str) -> None:
    """Writes a row's name to the left of its first picture."""
    axis.text(-0.15, 0.5, text, transform=axis.transAxes, ha="right", va="center", fontsize=8)


def _save(figure: Any, path: Path, title: str) -> None:
    """Writes the figure atomically and closes it."""
    figure.suptitle(textwrap.fill(title, int(_TITLE_LETTERS * figure.get_figwidth())), fontsize=9)
    kind = path.suffix.removeprefix(".") or "png"
    try:
        files.write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=130, format=kind))
    finally:
        plt.close(figure)
