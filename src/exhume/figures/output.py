"""A figure as files: the drawings, their data, the exact configuration and a caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure as Drawing

from exhume import files
from exhume.figures import caption
from exhume.figures.base import Figure
from exhume.figures.statistics import done, failures
from exhume.figures.style import GREY, SMALL
from exhume.figures.style import figure as sheet
from exhume.sweep import export
from exhume.sweep.record import Record

_DOTS = 150  # an inch


@dataclass(frozen=True)
class Published:
    """What was written.

    Attributes:
        name: of the figure.
        scale: of its experiments.
        cells, failed: how many there are, and how many have no outcome because they failed.
        seconds: that the experiments took together.
        files: drawings first.
    """

    name: str
    scale: str
    cells: int
    failed: int
    seconds: float
    files: tuple[Path, ...]

    def to_json(self) -> dict[str, Any]:
        """What was written, as plain JSON."""
        return vars(self) | {"files": [str(path) for path in self.files]}


def publish(figure: Figure, scale: str, records: Sequence[Record], folder: Path) -> Published:
    """Draws a figure from its records and writes it as PNG and SVG, with its data, configuration and caption beside.

    Every file depends on the records alone and is written atomically, so that publishing again changes nothing.
    """
    stem = figure.sweep(scale)
    drawn = [
        path
        for suffix, drawing in drawings_of(figure, records).items()
        for path in save(drawing, folder / f"{stem}{suffix}", ("png", "svg"))
    ]
    table, configuration, words = (folder / f"{stem}{end}" for end in (".csv", ".json", ".md"))
    export.write(table, records)
    files.write_json(configuration, caption.configuration(figure, scale, records))
    files.write_bytes(words, caption.text(figure, scale, records, [path.name for path in drawn]).encode())
    return Published(
        name=figure.name,
        scale=scale,
        cells=len(records),
        failed=sum(record.state == "failed" for record in records),
        seconds=caption.seconds(records),
        files=(*drawn, table, configuration, words),
    )


def drawings_of(figure: Figure, records: Sequence[Record]) -> dict[str, Drawing]:
    """The figure's drawings by the suffix of their file's name; they tell of failed cells."""
    drawn = {}
    for suffix, draw in figure.drawings().items():
        drawing = draw(records) if done(records) else _empty()
        missing = failures(records)
        if missing:
            drawing.text(0.003, 0.997, missing, ha="left", va="top", fontsize=SMALL, color="#B00000")
        drawn[suffix] = drawing
    return drawn


def save(drawing: Drawing, stem: Path, kinds: Sequence[str]) -> list[Path]:
    """Writes a drawing in some formats; equal drawings give equal files."""
    written = []
    for kind in kinds:
        path = stem.with_name(f"{stem.name}.{kind}")
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {}

        def write(temporary: Path, kind: str = kind, metadata: dict[str, Any] = metadata) -> None:
            with rc_context({"svg.hashsalt": stem.name}):
                drawing.savefig(temporary, dpi=_DOTS, format=kind, metadata=metadata)

        files.write_atomically(path, write)
        written.append(path)
    return written


def _empty() -> Drawing:
    drawing, (axis,) = sheet(size=(6, 1.2))
    axis.axis("off")
    axis.text(0.5, 0.4, "nothing to draw: no cell is done", ha="center", color=GREY)
    return drawing
