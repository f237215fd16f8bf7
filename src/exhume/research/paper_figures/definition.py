"""What a figure consists of: its experiments at two scales, its claim, its drawings and its findings.

Words and experiments are in figures.yaml, draw functions and findings in the five modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from exhume.errors import InputError
from exhume.support.yaml_files import read_yaml
from exhume.sweep.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from exhume.sweep.cell import Cell, Spec
    from exhume.sweep.store import Record

ScaleName = Literal["laptop", "paper"]
SCALES: tuple[ScaleName, ...] = ("laptop", "paper")


@dataclass(frozen=True)
class Scale:
    """A figure's experiments at one size.

    Attributes:
        grids: the cells.
        minutes: expected on two cores; a rough guess for the paper's scale.
        note: what the grids do not say.
    """

    grids: tuple[Grid, ...]
    minutes: float
    note: str = ""

    @property
    def lines(self) -> list[str]:
        """The experiments in words: a line for each grid, then the note."""
        return [*map(describe, self.grids), *([self.note] if self.note else [])]

    @property
    def protocol(self) -> str:
        """The lines as one text."""
        return "; ".join(self.lines)

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
        claim: what the paper claims, in our words; beyond the paper: what we expected.
        laptop: within 8 minutes on two cores.
        paper: the exact protocol; a figure beyond the paper may have none.
        findings: a function that describes the results in a few sentences.
        draw: draws the plot; None if there are only pictures.
        gallery: draws the pictures; None if there is only a plot.
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
        """The name of its sweep in the store."""
        return f"{self.name}-{scale}"

    def drawings(self) -> dict[str, Callable[[Sequence[Record]], Drawing]]:
        """The functions that draw, by the suffix of the file's name: the plot first, then the gallery."""
        if self.draw is None:
            return {"": self.gallery} if self.gallery is not None else {}
        return {"": self.draw} | ({"-gallery": self.gallery} if self.gallery is not None else {})

    def may_be_shown(self, suffix: str) -> bool:
        """Whether a drawing may be redistributed."""
        pictures = "-gallery" if self.draw is not None and self.gallery is not None else ""
        return not self.pictures_of or suffix != pictures


def figure(
    name: str,
    *,
    findings: Callable[[Sequence[Record]], str],
    draw: Callable[[Sequence[Record]], Drawing] | None = None,
    gallery: Callable[[Sequence[Record]], Drawing] | None = None,
) -> Figure:
    """A figure whose words and experiments are in figures.yaml, with the functions that describe and draw it."""
    fields = _entries()[name]
    scales = {scale: _scale(fields[scale]) if scale in fields else None for scale in SCALES}
    return Figure(name=name, **fields | scales, findings=findings, draw=draw, gallery=gallery)


@cache
def _entries() -> dict[str, Any]:
    return read_yaml(Path(__file__).with_name("figures.yaml"))


def _scale(fields: dict[str, Any]) -> Scale:
    """A scale from YAML; a grid with both features and ratio becomes two."""
    grids: list[Grid] = []
    for grid in fields["grids"]:
        if "features" in grid and "ratio" in grid:
            around_n = grid | {"name": f"{grid['name']} around p = n"}
            around_dn = grid | {"name": f"{grid['name']} around p = dn"}
            grids += [Grid(**around_n | {"ratio": None}), Grid(**around_dn | {"features": None})]
        else:
            grids.append(Grid(**grid))
    return Scale(**fields | {"grids": tuple(grids)})


def describe(grid: Grid) -> str:
    """A grid in one line: its name, data, victims, widths, attacks with their options, seeds."""
    widths = f"p = {_listed(grid.features)}" if grid.features else f"p/(d n) = {_listed(grid.ratio or ())}"
    parts = (
        ", ".join(_spec(each, "name") for each in grid.data),
        ", ".join(_spec(each, "kind") for each in grid.victim),
        widths,
        ", ".join(_spec(each, "method") for each in grid.attack),
        f"seeds {_listed(grid.seeds)}",
    )
    return f"{grid.name}: {'; '.join(parts)}"


def _spec(spec: Spec, name: str) -> str:
    """A part of a cell: its name, and in brackets the settings that differ from the defaults."""
    values = spec.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    label = str(getattr(spec, name))
    settings = [f"{key} {_value(value)}" for key, value in values.items() if key != name]
    return f"{label} ({', '.join(settings)})" if settings else label


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_value(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return _listed(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(_value, values))
