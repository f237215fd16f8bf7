"""The figures of the paper and some beyond it, in five modules.

A new figure is an entry in figures.yaml (words and grids) and one in the `FIGURES` of a module (drawing and findings):
thresholds, images, networks, descent_options or beyond.
"""

from __future__ import annotations

from exhume.errors import InputError
from exhume.support.extras import load_extra

load_extra("sweep", "pandas")  # before the modules that import it: the error names the extra

from exhume.research.paper_figures import beyond, descent_options, images, networks, thresholds  # noqa: E402
from exhume.research.paper_figures.definition import SCALES, Figure, Scale, ScaleName  # noqa: E402

_IN_THE_PAPER = (*thresholds.FIGURES, *images.FIGURES, *networks.FIGURES, *descent_options.FIGURES)

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (*sorted(_IN_THE_PAPER, key=lambda each: int(each.name.removeprefix("fig"))), *beyond.FIGURES)
}


def find(name: str) -> tuple[Figure, ...]:
    """The figures that a name means: "3" and "fig3" one, "beyond" those beyond the paper, "all" every one."""
    if name == "all":
        return tuple(FIGURES.values())
    if name == "beyond":
        return tuple(figure for figure in FIGURES.values() if figure.beyond)
    number = name.removeprefix("fig")
    wanted = f"fig{int(number)}" if number.isascii() and number.isdecimal() else name
    if wanted not in FIGURES:
        raise InputError(f"unknown figure {name!r}; valid: {', '.join(FIGURES)}, beyond, all")
    return (FIGURES[wanted],)


__all__ = ["FIGURES", "SCALES", "Figure", "Scale", "ScaleName", "find"]
