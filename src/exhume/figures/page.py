"""The results page: every figure at laptop scale, the paper's claim and what was measured side by side."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Drawing

from exhume import figures, files
from exhume.figures import caption
from exhume.figures.base import Figure
from exhume.figures.maps import samples_panel
from exhume.figures.output import drawings_of, save
from exhume.figures.statistics import method_of
from exhume.figures.style import figure as sheet
from exhume.figures.style import legend_below, name_of
from exhume.sweep.duration import duration
from exhume.sweep.record import Record
from exhume.sweep.store import Store

_SCALE = "laptop"
_PICTURES = Path("images/reproduction")
_ONE_LINE = 200  # letters of findings in the table


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes:
        page: the Markdown file.
        pictures: the drawings that it shows.
        missing: figures that the store has nothing of, or not all.
    """

    page: Path
    pictures: tuple[Path, ...]
    missing: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """What was written, as plain JSON."""
        return {
            "page": str(self.page),
            "pictures": [str(path) for path in self.pictures],
            "missing": list(self.missing),
        }


def write(store: Store, out: Path) -> Written:
    """Writes the page and, in a folder beside it, the drawings that may be shown; both depend on the store alone."""
    known = {record.cell.key: record for record in store.records() if record.state != "waiting"}
    complete: dict[str, list[Record]] = {}
    for figure in figures.FIGURES.values():
        keys = [cell.key for cell in figure.laptop.cells()]
        if known.keys() >= set(keys):
            complete[figure.name] = [known[key] for key in keys]
    pictures = {
        name: [
            path
            for suffix, drawing in _shown(figures.FIGURES[name], records).items()
            for path in save(drawing, out.parent / _PICTURES / f"{name}{suffix}", ("png",))
        ]
        for name, records in complete.items()
    }
    names = {name: [path.name for path in written] for name, written in pictures.items()}
    files.write_bytes(out, text(complete, names).encode())
    missing = tuple(name for name in figures.FIGURES if name not in complete)
    return Written(out, tuple(path for each in pictures.values() for path in each), missing)


def text(complete: dict[str, list[Record]], pictures: dict[str, list[str]]) -> str:
    """The page: a table of all figures, then each with its picture, claims, protocols, command and provenance."""
    parts = [_introduction(complete), _contents(complete)]
    for figure in figures.FIGURES.values():
        if figure.name in complete:
            parts.append(_section(figure, complete[figure.name], pictures.get(figure.name, [])))
        else:
            parts.append(_absent(figure))
    return "\n\n".join(parts) + "\n"


def _shown(figure: Figure, records: Sequence[Record]) -> dict[str, Drawing]:
    """The drawings that may be redistributed; if none may, what the pictures show in numbers."""
    drawn = drawings_of(figure, records)
    shown = {suffix: drawing for suffix, drawing in drawn.items() if figure.may_be_shown(suffix)}
    return shown or {"-errors": _in_numbers(records)}


def _in_numbers(records: Sequence[Record]) -> Drawing:
    """The error of every single sample instead of its picture."""
    drawing, axes = sheet()
    told_n = all(record.cell.attack.num_samples == "true" for record in records)
    samples_panel(axes[0], records, name=None if told_n else _sought)
    legend_below(drawing, axes)
    return drawing


def _sought(record: Record) -> str:
    return f"{name_of(method_of(record))}, num_samples = {record.cell.attack.num_samples}"


def _introduction(complete: dict[str, list[Record]]) -> str:
    everything = list({record.cell.key: record for records in complete.values() for record in records}.values())
    lines = [
        "# The paper's figures, reproduced",
        "Every figure of the law's paper at laptop scale (two CPU cores), and some beyond it: the paper's attack "
        "(`descent`) beside ours (`exact`) on the same victims. `exhume reproduce page` writes this page from the "
        "store that `exhume reproduce all` fills: [how to run it](reproduce.md).",
    ]
    if everything:
        lines.append(f"All cells: {caption.made(everything)}")
    return "\n\n".join(lines)


def _contents(complete: dict[str, list[Record]]) -> str:
    rows = ["| figure | claim | found | cells | computing |", "|---|---|---|---|---|"]
    for figure in figures.FIGURES.values():
        link = f"[{_short(figure)}](#{anchor(figure.heading)})"
        records = complete.get(figure.name)
        if records is None:
            rows.append(f"| {link} | {_cell(_first(figure.claim))} | not run yet | | |")
            continue
        found = textwrap.shorten(_first(caption.found(figure, records)), _ONE_LINE, placeholder=" ...")
        time = duration(caption.seconds(records))
        rows.append(f"| {link} | {_cell(_first(figure.claim))} | {_cell(found)} | {len(records)} | {time} |")
    return "\n".join(rows)


def _section(figure: Figure, records: Sequence[Record], pictures: Sequence[str]) -> str:
    parts = [f"## {figure.heading}", figure.shows]
    parts += [f"![{figure.title}]({(_PICTURES / name).as_posix()})" for name in pictures]
    if figure.pictures_of:
        parts.append(f"Pictures of {figure.pictures_of} are not redistributed here; the command below draws them.")
    parts.append(
        f"| {caption.claimant(figure).lower()} | found |\n|---|---|\n"
        f"| {_cell(figure.claim)} | {_cell(caption.found(figure, records))} |"
    )
    parts.append(_protocols(figure))
    parts.append("\n".join(f"- {line}" for line in caption.lines(figure.laptop.grids)))
    parts.append(f"`{caption.command(figure, _SCALE)}`: {caption.made(records)}")
    return "\n\n".join(parts)


def _absent(figure: Figure) -> str:
    command = f"`{caption.command(figure, _SCALE)}`"
    parts = [f"## {figure.heading}", figure.shows, f"Not run yet: {command}.", _protocols(figure)]
    return "\n\n".join(parts)


def _protocols(figure: Figure) -> str:
    rows = ["| scale | protocol | expected on two cores |", "|---|---|---|"]
    for name, scale in figure.scales().items():
        rows.append(f"| {name} | {_cell(caption.sentence(scale.protocol))} | {duration(60 * scale.minutes)} |")
    return "\n".join(rows)


def anchor(heading: str) -> str:
    """The link to a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _short(figure: Figure) -> str:
    return figure.heading.split(":")[0] if not figure.beyond else figure.name


def _first(words: str) -> str:
    """The first sentence."""
    return re.split(r"(?<=[.;])\s+(?=[A-Z])", words.strip(), maxsplit=1)[0]


def _cell(words: str) -> str:
    """Words that a table can hold."""
    return " ".join(words.replace("|", "\\|").split())
