"""Fragments of HTML that objects show themselves with in a notebook; every text in them is escaped.

They carry their styles with them, hold no scripts, and take the colour of the text around them, so that they can be
read on a light page and on a dark one. Each is well-formed XML too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import torch

from exhume.errors import InputError
from exhume.pixels import data_uri, stretched

# White on each of these has a contrast of 4.5 or more, and each stands out from white and from black. They say how
# strong the evidence is; whether that is good news depends on the reader.
STRONG, MIDDLING, WEAK = "#0a5fc2", "#9a6700", "#6a737d"

_LINE = "rgba(128,128,128,0.45)"
_SHOWN_SIDE, _STORED_SIDE = 72, 96  # pixels on the page, and at most in the file
_WIDTH, _MARGIN, _LETTER = 520, 12, 6.2  # of a scale, in pixels


class Markup(str):
    """Text that is markup of our own making already; any other text is escaped."""

    __slots__ = ()


def text(value: Any) -> str:
    """Markup as it is, everything else escaped, without the characters that XML cannot hold."""
    if isinstance(value, Markup):
        return value
    return escape("".join(letter if letter.isprintable() else " " for letter in str(value)))


def frame(*parts: str) -> str:
    """The whole fragment: its parts below one another."""
    return f'<div style="max-width:60em;line-height:1.45;overflow-x:auto">{"".join(parts)}</div>'


def line(*values: Any) -> Markup:
    """A paragraph of texts and markup."""
    return Markup(f'<div style="margin:0.3em 0">{" ".join(text(value) for value in values)}</div>')


def badge(word: Any, colour: str) -> Markup:
    """A word on a coloured ground."""
    style = f"background:{colour};color:#fff;border-radius:0.3em;padding:0.1em 0.5em;font-weight:600"
    return Markup(f'<span style="{style}">{text(word)}</span>')


def strong(value: Any) -> Markup:
    """A text that stands out."""
    return Markup(f"<strong>{text(value)}</strong>")


def facts(pairs: Iterable[tuple[Any, Any]]) -> Markup:
    """Names and values, side by side."""
    name, value = (f"text-align:left;padding:0.1em 1em 0.1em 0;{more}" for more in ("opacity:0.75", "font-weight:600"))
    rows = "".join(
        f'<tr style="background:none"><td style="{name}">{text(left)}</td><td style="{value}">{text(right)}</td></tr>'
        for left, right in pairs
    )
    return Markup(
        f'<table style="border-collapse:collapse;margin:0.4em 0;font-size:0.95em"><tbody>{rows}</tbody></table>'
    )


def table(columns: Sequence[Any], rows: Iterable[Sequence[Any]]) -> Markup:
    """A table of texts, numbers and markup, with a line under its heads."""
    cell = "text-align:right;padding:0.1em 0.7em;white-space:nowrap"
    head = "".join(f'<th style="{cell};border-bottom:1px solid {_LINE}">{text(name)}</th>' for name in columns)
    body = "".join(
        '<tr style="background:none">' + "".join(f'<td style="{cell}">{text(value)}</td>' for value in row) + "</tr>"
        for row in rows
    )
    style = "border-collapse:collapse;margin:0.4em 0;font-size:0.9em;font-variant-numeric:tabular-nums"
    return Markup(f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>')


def folded(title: Any, lines: Iterable[Any]) -> Markup:
    """Lines behind a title that unfolds them."""
    items = "".join(line(each) for each in lines)
    return Markup(f'<details><summary style="cursor:pointer;opacity:0.75">{text(title)}</summary>{items}</details>')


@dataclass(frozen=True)
class Mark:
    """A place on a scale and what it is called."""

    at: float
    name: str


def scale(walls: Sequence[Mark], here: Mark, zones: Sequence[str], description: str) -> Markup:
    """A logarithmic scale: walls in rising order that part it into coloured zones, and one place marked on it.

    Args:
        walls: where the zones end, all above 0.
        here: the place that is marked.
        zones: a colour for each, one more than walls.
        description: what it shows, for those who cannot see it.
    """
    if len(zones) != len(walls) + 1:
        raise InputError(f"{len(walls)} walls part a scale into {len(walls) + 1} zones, not {len(zones)}")
    places = [here.at, *(wall.at for wall in walls)]
    if not all(math.isfinite(place) and place > 0 for place in places):
        raise InputError(f"a logarithmic scale takes places above 0, not {places}")
    low, high = math.log10(min(places)) - 0.5, math.log10(max(places)) + 0.5

    def across(place: float) -> float:
        return _MARGIN + (_WIDTH - 2 * _MARGIN) * (math.log10(place) - low) / (high - low)

    edges = [float(_MARGIN), *(across(wall.at) for wall in walls), float(_WIDTH - _MARGIN)]
    drawn = [
        f'<rect x="{left:.1f}" y="30" width="{right - left:.1f}" height="10" fill="{colour}"/>'
        for left, right, colour in zip(edges[:-1], edges[1:], zones, strict=True)
    ]
    x = across(here.at)
    drawn.append(f'<path d="M {x:.1f} 30 l -6 -10 h 12 z" fill="currentColor"/>')
    drawn.append(_caption(here.name, x, 14, weight="600"))
    ends: list[float] = []  # of the last name in every row below the scale
    for wall in walls:
        x, half = across(wall.at), len(wall.name) * _LETTER / 2
        start = min(max(x - half, 0), _WIDTH - 2 * half)
        row = next((number for number, end in enumerate(ends) if end + _LETTER < start), len(ends))
        ends[row : row + 1] = [start + 2 * half]
        y = 56 + 16 * row
        drawn.append(f'<path d="M {x:.1f} 28 V {y - 11}" stroke="currentColor" fill="none"/>')
        drawn.append(_caption(wall.name, x, y))
    height = 46 + 16 * len(ends)
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{text(description)}" '
        f'style="max-width:100%;font:11px sans-serif">{"".join(drawn)}</svg>'
    )


def _caption(name: str, x: float, y: float, weight: str = "400") -> str:
    """A name centred at x, kept inside the drawing."""
    half = len(name) * _LETTER / 2
    middle = min(max(x, half), _WIDTH - half)
    centred = f'text-anchor="middle" font-weight="{weight}" fill="currentColor"'
    return f'<text x="{middle:.1f}" y="{y:.1f}" {centred}>{text(name)}</text>'


def picture_uri(sample: torch.Tensor, shape: tuple[int, int, int]) -> str:
    """The data URI of a PNG of one sample (d,), its own least value black and its own greatest white."""
    numbers = torch.nan_to_num(sample.detach().double(), posinf=0.0, neginf=0.0)  # of an attack that diverged
    return data_uri(stretched(numbers[None], shape)[0], _STORED_SIDE)


def pictures(uris: Sequence[str], descriptions: Sequence[Any], captions: Sequence[Any]) -> Markup:
    """Pictures side by side, each with a caption below."""
    size = f"width:{_SHOWN_SIDE}px;height:{_SHOWN_SIDE}px;object-fit:contain;image-rendering:pixelated"
    shown = "".join(
        f'<figure style="margin:0 0.6em 0.6em 0;display:inline-block;text-align:center;vertical-align:top">'
        f'<img src="{text(uri)}" alt="{text(description)}" style="{size};margin:0;max-width:none;display:block"/>'
        f'<figcaption style="font-size:0.8em;line-height:1.3;opacity:0.85">{text(caption)}</figcaption></figure>'
        for uri, description, caption in zip(uris, descriptions, captions, strict=True)
    )
    return Markup(f'<div style="margin:0.5em 0">{shown}</div>')
