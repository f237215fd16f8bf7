"""The figures of the paper, one module each, and those beyond it.

A new figure is one file with a `FIGURE` (see `base.py`) and its name in `_MODULES`.
"""

from __future__ import annotations

import importlib

from exhume.errors import InputError
from exhume.figures.base import SCALES, Figure, Scale, ScaleName

_MODULES: tuple[str, ...] = (
    *(f"fig{number:02}" for number in range(1, 18)),
    "threshold",
    "phase",
    "subspace_dimension",
    "precision",
)


def _load() -> dict[str, Figure]:
    found = [importlib.import_module(f"exhume.figures.{module}").FIGURE for module in _MODULES]
    return {figure.name: figure for figure in found}


FIGURES: dict[str, Figure] = _load()


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
