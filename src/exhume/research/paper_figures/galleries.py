"""Galleries of a figure: true pictures, below them the recovered ones of each attack with their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import safetensors.torch
import torch
from matplotlib.figure import Figure

from exhume.research.paper_figures.statistics import done, grouped, method_name
from exhume.research.paper_figures.style import GREY
from exhume.scoring import gallery as images

if TYPE_CHECKING:
    from exhume.sweep.store import Record

Signs = Literal["turned", "as found"]
_MARGIN = 1.3  # inches for the names of rows
_MOST = 20  # true pictures


@dataclass(frozen=True)
class Row:
    """The pictures that one cell recovered, matched to true pictures.

    Attributes:
        truth: the true pictures (q, C, H, W) in [0, 1].
        recovered: (q, C, H, W).
        words: the text under each of them.
        extras: (e, C, H, W) rows beyond the number of samples.
    """

    name: str
    truth: torch.Tensor
    recovered: torch.Tensor
    words: tuple[str, ...]
    extras: torch.Tensor

    @property
    def places(self) -> dict[bytes, int]:
        """Where each true picture is."""
        return {_key(picture): place for place, picture in enumerate(self.truth)}


def gallery(
    records: Sequence[Record],
    *,
    signs: Signs = "turned",
    columns: int = 10,
    extras: bool = False,
    title: str = "",
    rows: Callable[[Record], str] | None = None,
) -> Figure:
    """Blocks of a row of true pictures and one row for each attack below it.

    Of cells with the same name the one with the smallest seed is drawn. Norms that an attack leaves open are the
    truth's; a true picture that a cell has no match for leaves its place empty.

    Args:
        signs: "turned" draws every match with the true sign; "as found" with the sign that the attack returned, and the
            words under it name a wrong one.
        extras: whether rows beyond the number of samples are drawn too, at the end.
        rows: the name of a cell's row; its attack if left out.
    """
    found = rows_of(records, signs, rows or method_name)
    if not found:
        return _nothing(title)
    everything = list({_key(picture): picture for row in found for picture in row.truth}.items())
    truth = everything[:_MOST]
    if len(truth) < len(everything):
        title = f"{title} ({len(truth)} of {len(everything)} samples)"
    columns = max(1, min(columns, len(truth)))
    blocks = -(-len(truth) // columns)
    height = 1 + len(found)
    beyond = [(row.name, part) for row in found if extras for part in row.extras[:_MOST].split(columns)]
    beyond = [(name, part) for name, part in beyond if len(part)]
    sheet, axes = images.sheet(blocks * height + len(beyond), columns, margin=_MARGIN)
    for block in range(blocks):
        block_axes = axes[block * height : (block + 1) * height]
        _draw_block(block_axes, truth[block * columns : (block + 1) * columns], found)
    for line, (name, pictures) in enumerate(beyond, start=blocks * height):
        images.name_row(axes[line][0], f"{name}\nrows beyond")
        for axis, picture in zip(axes[line], pictures, strict=False):
            images.show(axis, picture)
    images.add_title(sheet, title)
    return sheet


def rows_of(records: Sequence[Record], signs: Signs, name: Callable[[Record], str]) -> list[Row]:
    """The rows to draw, in the order of the records; of equal names the one with the smallest seed."""
    groups = grouped(with_pictures(records), name)
    return [_row(label, min(mine, key=lambda each: each.cell.seed), signs) for label, mine in groups.items()]


def with_pictures(records: Iterable[Record]) -> list[Record]:
    """The done records that have pictures."""
    return [record for record in done(records) if record.read_pictures() is not None]


def load_pictures(record: Record) -> dict[str, torch.Tensor]:
    """The pictures of a record that has some, and the errors of the samples."""
    pictures = record.read_pictures()
    assert pictures is not None
    return safetensors.torch.load(pictures)


def _row(name: str, record: Record, signs: Signs) -> Row:
    tensors = load_pictures(record)
    found, turned = tensors["recovered"], tensors["turned"]
    flipped = (found != turned).flatten(1).any(1) if len(found) else torch.zeros(0, dtype=torch.bool)
    words = [f"{error:.1e}" for error in tensors["errors"].tolist()]
    if signs == "as found":
        words = [f"{each}, sign" if wrong else each for each, wrong in zip(words, flipped.tolist(), strict=True)]
    return Row(
        name=name,
        truth=tensors["truth"].float() / 255,
        recovered=(turned if signs == "turned" else found).float() / 255,
        words=tuple(words),
        extras=tensors["extras"].float() / 255,
    )


def _draw_block(axes: Any, truth: Sequence[tuple[bytes, torch.Tensor]], rows: Sequence[Row]) -> None:
    images.name_row(axes[0][0], "truth")
    for axis, (_, picture) in zip(axes[0], truth, strict=False):
        images.show(axis, picture)
    for line, row in zip(axes[1:], rows, strict=True):
        images.name_row(line[0], row.name)
        places = row.places
        for axis, (key, _) in zip(line, truth, strict=False):
            if key in places:
                images.show(axis, row.recovered[places[key]], row.words[places[key]])


def _key(picture: torch.Tensor) -> bytes:
    return picture.contiguous().numpy().tobytes()


def _nothing(title: str) -> Figure:
    sheet, axes = images.sheet(1, 4)
    axes[0][0].text(0, 0.5, "no pictures: no cell with pictures is done", color=GREY, fontsize=8)
    images.add_title(sheet, title)
    return sheet
