"""How drawings look: sheets, fonts, a palette that the colour-blind can read, names of methods."""

from __future__ import annotations

from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import colors
from matplotlib.figure import Figure

# Okabe and Ito's palette.
METHOD_COLOURS = {"descent": "#D55E00", "exact": "#0072B2", "subspace": "#009E73", "kkt": "#CC79A7", "ntk": "#E69F00"}
OTHER_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
BLACK, GREY = "#000000", "#777777"
METHOD_NAMES = {"descent": "descent (paper)", "exact": "exact (ours)", "subspace": "subspace (ours)"}

SMALL, USUAL = 8, 10  # sizes of letters
_SIZES = ((6.4, 4.2), (4.8, 3.8), (3.4, 3.2))  # inches of a panel beside no other, one other, more
_LIGHTEST = 0.6  # share of white in the lightest tone


def figure(columns: int = 1, *, size: tuple[float, float] | None = None) -> tuple[Figure, list[Any]]:
    """A sheet and its axes side by side; `size` is that of one of them in inches, by default legible at 800 pixels."""
    width, height = size or _SIZES[min(columns, len(_SIZES)) - 1]
    drawing = Figure(figsize=(width * columns, height), layout="constrained")
    axes = list(drawing.subplots(1, columns, squeeze=False).flat)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, linewidth=0.5)
        axis.set_axisbelow(True)
    return drawing, axes


def colour_of(method: str) -> str:
    """The colour of an attack, the same in every figure."""
    return METHOD_COLOURS.get(method, GREY)


def name_of(method: str) -> str:
    """An attack's name in legends."""
    return METHOD_NAMES.get(method, method)


def tones(colour: str, count: int) -> list[str]:
    """`count` tones of a colour, from the colour itself towards white."""
    shares = [_LIGHTEST * index / max(count - 1, 1) for index in range(count)]
    return [lighter(colour, share) for share in shares]


def lighter(colour: str, share: float) -> str:
    """A colour with that share of white in it."""
    red, green, blue = ((1 - share) * part + share for part in colors.to_rgb(colour))
    return colors.to_hex((red, green, blue))
