"""Sheets of images by matplotlib: true images above recovered ones, the error under each."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import torch
from matplotlib.figure import Figure

from exhume.errors import InputError
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import Score
from exhume.scoring.aligned import align
from exhume.scoring.comparison import Entry
from exhume.support import files

ToPictures = Callable[[torch.Tensor], torch.Tensor]
_TITLE_LETTERS = 14  # that fit into an inch
_PLACE = (0.9, 1.075)  # inches of an image with the words under it
_COMPARED = 12  # samples that a comparison shows


def draw_result(path: Path, result: Reconstruction, score: Score, truth: torch.Tensor, to_pictures: ToPictures) -> None:
    """Draws the samples of one attack beside the true ones that they match."""
    shown = align(result.samples, score, truth)
    title = f"{result.method}: {score.claimed_recovered} of {score.num_samples} recovered"
    title += "" if score.signs_claimed else " up to sign"
    title += " (true above, recovered below with its error"
    title += f"; {' and '.join(shown.borrowed)} drawn as in the truth)" if shown.borrowed else ")"
    save_gallery(path, truth[list(shown.indices)], shown.rows, shown.errors, to_pictures, title=title)


def draw_comparison(path: Path, entries: Sequence[Entry], truth: torch.Tensor, to_pictures: ToPictures) -> bool:
    """Draws some true images in the top row and below them a row for each attack, its error under every image.

    Args:
        path: a .png (or any format matplotlib writes).
        entries: the attacks; only those that were scored are drawn, and nothing (False) if none was.
        truth: (n, d) all true samples; the first ones that no attack knew are drawn.
        to_pictures: vectors (b, d) to images (b, C, H, W) in [0, 1].
    """
    scored = [(each.method, each.score, each.result) for each in entries if each.result and each.score]
    if not scored:
        return False
    known = {index for _, score, _ in scored for index in score.known}
    sought = [index for index in range(len(truth)) if index not in known]
    drawn = sought[:_COMPARED]
    figure, axes = sheet(1 + len(scored), len(drawn), margin=1.0)
    name_row(axes[0][0], "true")
    for axis, picture in zip(axes[0], to_pictures(truth[drawn]), strict=True):
        show(axis, picture)
    borrowed: set[str] = set()
    for line, (method, score, result) in zip(axes[1:], scored, strict=True):
        sign = "" if score.signs_claimed else "\nup to sign"
        name_row(line[0], f"{method}\n{score.claimed_recovered} of {score.num_samples}{sign}")
        aligned = align(result.samples, score, truth)
        borrowed |= set(aligned.borrowed)
        matches = zip(aligned.indices, to_pictures(aligned.rows), aligned.errors, strict=True)
        for index, picture, error in matches:
            if index in drawn:
                show(line[drawn.index(index)], picture, f"{error:.1e}")
    title = f"{len(drawn)} of {len(sought)} samples, and how many of all each attack recovered"
    if borrowed:
        title += f"; {' and '.join(sorted(borrowed))} that an attack leaves open are the truth's"
    add_title(figure, title)
    _save(figure, path)
    return True


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
    """Draws matched pairs, `columns` a row: the true image above, the recovered one below with its error.

    Args:
        path: a .png (or any format matplotlib writes).
        truth: (n, d) true samples.
        recovered: (n, d) their matches, in the same order and at the norms to draw them with.
        errors: one number a pair.
        to_pictures: vectors (n, d) to images (n, C, H, W) in [0, 1].
    """
    count = truth.shape[0]
    if recovered.shape != truth.shape or len(errors) != count:
        raise InputError(f"a gallery pairs {count} true samples with as many recovered ones and errors")
    columns = min(columns, count)
    blocks = -(-count // columns)
    figure, axes = sheet(2 * blocks, columns)
    above, below = to_pictures(truth), to_pictures(recovered)
    for index in range(count):
        block, column = divmod(index, columns)
        show(axes[2 * block][column], above[index])
        show(axes[2 * block + 1][column], below[index], f"{errors[index]:.1e}")
    add_title(figure, title)
    _save(figure, path)


def sheet(lines: int, columns: int, margin: float = 0.4) -> tuple[Figure, Any]:
    """Makes a figure with lines x columns empty places, and `margin` inches to the left for the names of rows."""
    figure = Figure(figsize=(_PLACE[0] * columns + margin, _PLACE[1] * lines + 0.6), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    return figure, axes


def show(axis: Any, picture: torch.Tensor, words: str = "") -> None:
    """Draws one image (C, H, W) in [0, 1], and words under it."""
    pixels = picture.permute(1, 2, 0).cpu().numpy()
    grey = pixels.shape[2] == 1
    axis.imshow(pixels[:, :, 0] if grey else pixels, cmap="gray" if grey else None, vmin=0, vmax=1)
    if words:
        axis.set_title(words, fontsize=7, y=-0.28)


def add_title(figure: Figure, title: str) -> None:
    """Writes the title above the figure, in lines that fit its width."""
    figure.suptitle(textwrap.fill(title, int(_TITLE_LETTERS * figure.get_figwidth())), fontsize=9)


def name_row(axis: Any, text: str) -> None:
    """Writes a row's name to the left of its first image."""
    axis.text(-0.15, 0.5, text, transform=axis.transAxes, ha="right", va="center", fontsize=8)


def _save(figure: Figure, path: Path) -> None:
    """Writes the figure atomically; any format that matplotlib knows, by the suffix."""
    kind = path.suffix.removeprefix(".") or "png"
    files.write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=130, format=kind))
