"""Running figures: one sweep over all their cells; each figure is published when its last cell is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure as Drawing

from exhume import data
from exhume.errors import DataError
from exhume.report.chart_style import legend_below
from exhume.research import paper_figures
from exhume.research.paper_figures import captions
from exhume.research.paper_figures.definition import Figure
from exhume.research.paper_figures.maps import samples_panel
from exhume.research.paper_figures.statistics import done, failures, method_name
from exhume.research.paper_figures.style import GREY, SMALL
from exhume.research.paper_figures.style import figure as sheet
from exhume.support import files
from exhume.sweep import export
from exhume.sweep.cluster import Workers
from exhume.sweep.run import SweepProgress, run_sweep
from exhume.sweep.store import Record, Store

_DOTS = 150  # per inch
_PAGE_DRAWINGS = Path("images/reproduction")  # beside the page


@dataclass(frozen=True)
class Published:
    """The files of a figure.

    Attributes:
        name: of the figure.
        scale: of its experiments.
        cells, failed: how many there are, and how many have no outcome because they failed.
        seconds: computing time of all cells.
        files: drawings first.
    """

    name: str
    scale: str
    cells: int
    failed: int
    seconds: float
    files: tuple[Path, ...]

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON."""
        return vars(self) | {"files": [str(path) for path in self.files]}


@dataclass(frozen=True)
class Page:
    """The files of the page of results.

    Attributes:
        page: the Markdown file.
        pictures: the drawings that it shows.
        missing: figures of which the store lacks some cells.
    """

    page: Path
    pictures: tuple[Path, ...]
    missing: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON."""
        return {"page": str(self.page), "pictures": list(map(str, self.pictures)), "missing": list(self.missing)}


def reproduce(
    figures: Sequence[Figure],
    scale: str,
    store: Store,
    folder: Path,
    *,
    workers: Workers = None,
    retry_failed: bool = False,
    observer: Callable[[SweepProgress | Published], None] = lambda _: None,
) -> list[Published]:
    """Computes the cells that the store lacks and publishes every figure; shared cells are computed once.

    A run that was interrupted continues when it is started again: the store has the finished cells, and the files
    depend only on the store.

    Args:
        figures: in the order in which their cells are computed.
        folder: where their files go.
        workers: of `run_sweep`; those of a scheduler may have data sets that this machine lacks, so none are required.
        observer: called with the progress of the sweep, and with each figure that is published.
    """
    if not isinstance(workers, str):
        require_data(figures, scale)
    cells = {figure.name: figure.scale(scale).cells() for figure in figures}
    written: dict[str, Published] = {}

    def publish_complete() -> None:
        for figure in figures:
            if figure.name not in written and not store.counts(figure.sweep(scale)).waiting:
                written[figure.name] = publish(figure, scale, store.records(figure.sweep(scale)), folder)
                observer(written[figure.name])

    def on_event(event: SweepProgress) -> None:
        if event.latest:
            publish_complete()
        observer(event)

    union = [cell for figure in figures for cell in cells[figure.name]]
    with store.locked():
        for figure in figures:
            store.register(figure.sweep(scale), cells[figure.name])
        run_sweep(union, store, sweep=sweep_of(scale), workers=workers, retry_failed=retry_failed, progress=on_event)
    publish_complete()
    return [written[figure.name] for figure in figures]


def publish(figure: Figure, scale: str, records: Sequence[Record], folder: Path) -> Published:
    """Draws a figure from its records and writes it as PNG and SVG, with its data, configuration and caption beside.

    Every file depends only on the records and is written atomically, so that publishing again changes nothing.
    """
    stem = figure.sweep(scale)
    drawn = [
        path
        for suffix, drawing in _drawings(figure, records).items()
        for path in _save(drawing, folder / f"{stem}{suffix}", ("png", "svg"))
    ]
    table, configuration, caption = (folder / f"{stem}{end}" for end in (".csv", ".json", ".md"))
    export.write(table, records)
    files.write_json(configuration, captions.configuration(figure, scale, records))
    files.write_bytes(caption, captions.caption(figure, scale, records, [path.name for path in drawn]).encode())
    return Published(
        name=figure.name,
        scale=scale,
        cells=len(records),
        failed=sum(record.state == "failed" for record in records),
        seconds=captions.seconds(records),
        files=(*drawn, table, configuration, caption),
    )


def write_page(store: Store, out: Path) -> Page:
    """Writes the page of results and, in a folder beside it, the drawings that may be redistributed."""
    known = {record.cell.key: record for record in store.records() if record.state != "waiting"}
    complete: dict[str, list[Record]] = {}
    pictures: list[Path] = []
    drawings: dict[str, list[str]] = {}
    for name, figure in paper_figures.FIGURES.items():
        keys = [cell.key for cell in figure.laptop.cells()]
        if not known.keys() >= set(keys):
            continue
        complete[name] = [known[key] for key in keys]
        for suffix, drawing in _redistributable(figure, complete[name]).items():
            pictures += _save(drawing, out.parent / _PAGE_DRAWINGS / f"{name}{suffix}", ("png",))
            drawings.setdefault(name, []).append((_PAGE_DRAWINGS / pictures[-1].name).as_posix())
    files.write_bytes(out, captions.page(paper_figures.FIGURES, complete, drawings).encode())
    return Page(out, tuple(pictures), tuple(name for name in paper_figures.FIGURES if name not in complete))


def sweep_of(scale: str) -> str:
    """The name of the one sweep over all figures that are run together."""
    return f"reproduce-{scale}"


def require_data(figures: Iterable[Figure], scale: str) -> None:
    """Raises a DataError that says how to get them if data sets that the figures need are not on this machine."""
    absent = {info.name: info for info in data.available() if not info.found}
    lacking = {figure.name: sorted(data_of(figure, scale) & set(absent)) for figure in figures}
    needed = sorted({name for names in lacking.values() for name in names})
    if not needed:
        return
    lines = [f"data set {name} is not on this machine; to get it: {absent[name].how_to_get}" for name in needed]
    lines.append(f"needed by {', '.join(name for name, names in lacking.items() if names)}")
    others = [name for name, names in lacking.items() if not names]
    if others:
        lines.append(f"without it: exhume reproduce {' '.join(others)}")
    raise DataError("\n".join(lines))


def data_of(figure: Figure, scale: str) -> set[str]:
    """The data sets that a figure needs."""
    return {spec.name for grid in figure.scale(scale).grids for spec in grid.data}


def expected_minutes(figures: Iterable[Figure], scale: str) -> float:
    """The time of several figures together on two cores; shared cells count once."""
    seen: set[str] = set()
    total = 0.0
    for figure in figures:
        keys = {cell.key for cell in figure.scale(scale).cells()}
        total += figure.scale(scale).minutes * len(keys - seen) / max(len(keys), 1)
        seen |= keys
    return total


def _drawings(figure: Figure, records: Sequence[Record]) -> dict[str, Drawing]:
    """The figure's drawings by the suffix of their file's name, with the number of failed cells on each."""
    drawn, missing = {}, failures(records)
    for suffix, draw in figure.drawings().items():
        drawn[suffix] = draw(records) if done(records) else _empty()
        if missing:
            drawn[suffix].text(0.003, 0.997, missing, ha="left", va="top", fontsize=SMALL, color="#B00000")
    return drawn


def _redistributable(figure: Figure, records: Sequence[Record]) -> dict[str, Drawing]:
    """The drawings that may be redistributed; if none may, the errors of the samples instead of their pictures."""
    shown = {suffix: each for suffix, each in _drawings(figure, records).items() if figure.may_be_shown(suffix)}
    if shown:
        return shown
    drawing, axes = sheet()
    num_samples_given = all(record.cell.attack.num_samples == "true" for record in records)
    samples_panel(axes[0], records, name=None if num_samples_given else _method_and_count)
    legend_below(drawing, *axes)
    return {"-errors": drawing}


def _method_and_count(record: Record) -> str:
    return f"{method_name(record)}, num_samples = {record.cell.attack.num_samples}"


def _save(drawing: Drawing, stem: Path, kinds: Sequence[str]) -> list[Path]:
    """Writes a drawing in some formats; equal drawings give equal files."""
    written = [stem.with_name(f"{stem.name}.{kind}") for kind in kinds]
    with rc_context({"svg.hashsalt": stem.name}):
        for kind, path in zip(kinds, written, strict=True):
            metadata = {"Date": None} if kind == "svg" else {}
            files.write_atomically(path, partial(drawing.savefig, dpi=_DOTS, format=kind, metadata=metadata))
    return written


def _empty() -> Drawing:
    drawing, (axis,) = sheet(size=(6, 1.2))
    axis.axis("off")
    axis.text(0.5, 0.4, "nothing to draw: no cell is done", ha="center", color=GREY)
    return drawing
