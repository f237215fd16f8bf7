"""Galleries: true pictures above recovered ones, the error under each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from exhume import drawing, measures
from exhume.errors import InputError
from exhume.reconstruction import Reconstruction
from exhume.scoring import Score

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
    figure, axes = drawing.sheet(2 * blocks, columns)
    above, below = to_pictures(truth), to_pictures(recovered)
    for index in range(count):
        block, column = divmod(index, columns)
        drawing.show(axes[2 * block][column], above[index])
        drawing.show(axes[2 * block + 1][column], below[index], f"{errors[index]:.1e}")
    drawing.entitle(figure, title)
    drawing.save(figure, path)


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
    figure, axes = drawing.sheet(1 + len(lines), len(indices), margin=1.0)
    drawing.name_row(axes[0][0], "true")
    for column, picture in enumerate(to_pictures(truth[list(indices)])):
        drawing.show(axes[0][column], picture)
    for line, (label, shown) in enumerate(lines.items(), start=1):
        drawing.name_row(axes[line][0], label)
        pictures = to_pictures(shown.rows)
        places = {index: place for place, index in enumerate(shown.indices)}
        for column, index in enumerate(indices):
            if index in places:
                place = places[index]
                drawing.show(axes[line][column], pictures[place], f"{shown.errors[place]:.1e}")
    drawing.entitle(figure, title)
    drawing.save(figure, path)
