"""What a figure is: its experiments at two scales, what it claims, how it is drawn and what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from exhume.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.cell import Cell
    from exhume.sweep.grid import Grid
    from exhume.sweep.record import Record

ScaleName = Literal["laptop", "paper"]
SCALES: tuple[ScaleName, ...] = ("laptop", "paper")


@dataclass(frozen=True)
class Scale:
    """A figure's experiments at one size.

    Attributes:
        protocol: in words: data, sizes, seeds, budgets.
        grids: the cells, as grids.
        minutes: expected on two cores; a rough statement for the paper's scale.
    """

    protocol: str
    grids: tuple[Grid, ...]
    minutes: float

    def cells(self) -> list[Cell]:
        """All cells in the order of the grids, each once."""
        found = {cell.key: cell for grid in self.grids for cell in grid.cells()}
        return list(found.values())


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or one beyond it.

    Attributes:
        name: "fig3", or a word for one beyond the paper.
        title: a few words.
        shows: what it shows.
        claim: what the paper says, in our words; beyond the paper: what was expected.
        laptop: within 8 minutes on two cores.
        paper: the exact protocol; a figure beyond the paper may have none.
        findings: what was measured, computed from the records, in a sentence or a few.
        draw: the plot; None if there are only pictures.
        gallery: the pictures; None if there is only a plot.
        beyond: whether it goes beyond the paper.
        pictures_of: the data set whose pictures the gallery (or, if it has none, the plot) shows, if they may not be
            redistributed; these drawings are kept out of the documentation.
    """

    name: str
    title: str
    shows: str
    claim: str
    laptop: Scale
    paper: Scale | None
    findings: Callable[[Sequence[Record]], str]
    draw: Callable[[Sequence[Record]], Drawing] | None = None
    gallery: Callable[[Sequence[Record]], Drawing] | None = None
    beyond: bool = False
    pictures_of: str = ""

    @property
    def heading(self) -> str:
        """Its number and title."""
        number = self.name.removeprefix("fig")
        return f"Figure {number}: {self.title}" if number.isdecimal() else f"{self.title[:1].upper()}{self.title[1:]}"

    def scale(self, name: str) -> Scale:
        """The experiments at a scale; one that this figure does not have is an InputError."""
        scales = self.scales()
        if name not in scales:
            raise InputError(f"{self.name} has no scale {name!r}; valid: {', '.join(scales)}")
        return scales[name]

    def scales(self) -> dict[str, Scale]:
        """The scales that this figure has, by name."""
        return {"laptop": self.laptop} | ({"paper": self.paper} if self.paper is not None else {})

    def sweep(self, scale: str) -> str:
        """The name under which the store keeps its cells."""
        return f"{self.name}-{scale}"

    def drawings(self) -> dict[str, Callable[[Sequence[Record]], Drawing]]:
        """What there is to draw, by the suffix of its file's name: the plot first, then the gallery."""
        if self.draw is None:
            return {"": self.gallery} if self.gallery is not None else {}
        return {"": self.draw} | ({"-gallery": self.gallery} if self.gallery is not None else {})

    def may_be_shown(self, suffix: str) -> bool:
        """Whether a drawing may be redistributed."""
        pictures = "-gallery" if self.draw is not None and self.gallery is not None else ""
        return not self.pictures_of or suffix != pictures
