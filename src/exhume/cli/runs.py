"""`exhume runs`: the run folders below a folder, and what the attacks in them found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from exhume.cli.options import Json
from exhume.cli.render import show
from exhume.errors import FileError
from exhume.support.text import duration, table

_DEEPEST = 3  # folders below the given one
_VICTIM, _RESULT, _SCORE, _CHECKPOINT, _AUDIT = (
    "victim.json",
    "result.json",
    "score.json",
    "checkpoint.safetensors",
    "audit.json",
)


@dataclass(frozen=True)
class Listed:
    """One attack of a run folder.

    Attributes:
        run: the folder.
        attack: its name; empty if the folder holds none.
        state: "finished", "unfinished" (a checkpoint can be resumed), "not attacked" or "unreadable".
        outcome: of the audit, if the folder is one: "recovered", "not-recovered", "inconclusive" or "not-recoverable".
        verdict: of the certificate; None without a result.
        recovered, num_samples: from the score; None if it was not scored.
        passes, seconds: what it cost.
    """

    run: str
    attack: str
    state: str
    outcome: str | None = None
    verdict: str | None = None
    recovered: int | None = None
    num_samples: int | None = None
    passes: float | None = None
    seconds: float | None = None


def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look, three folders deep.")] = Path(),
    json: Json = False,
) -> None:
    """List run folders and audits with their verdicts and outcomes.

    The true data are not read: the counts are those of earlier `exhume score`.

    Example: exhume runs runs
    """
    if not folder.is_dir():
        raise FileError(f"{folder} is not a folder; valid: one with run folders in it, made by exhume train or audit")
    found = [entry for place in _places(folder, _DEEPEST) for entry in _entries(place)]
    text = _table(found) if found else f"no run folder in {folder}; make one with: exhume train rf --out runs/a"
    show(text, {"folder": str(folder), "runs": [asdict(entry) for entry in found]}, json)


def _places(folder: Path, depth: int) -> Iterator[Path]:
    """Run folders and audit folders in and below a folder, in the order of their names."""
    if (folder / _VICTIM).is_file() or (folder / _AUDIT).is_file():
        yield folder
    elif depth:
        try:
            below = sorted(each for each in folder.iterdir() if each.is_dir() and not each.is_symlink())
        except PermissionError:
            return
        for each in below:
            if not each.name.startswith("."):
                yield from _places(each, depth - 1)


def _entries(place: Path) -> list[Listed]:
    attacks = sorted({path.parent for name in (_RESULT, _CHECKPOINT) for path in place.glob(f"*/{name}")})
    try:
        audit = _read(place / _AUDIT)
        is_audit = (place / _AUDIT).is_file()
        outcome, counted = (str(audit["outcome"]), audit["method"]) if is_audit else (None, None)
    except (FileError, KeyError):
        return [Listed(str(place), "", "unreadable")]
    if not attacks:
        return [Listed(str(place), "", "finished" if outcome else "not attacked", outcome)]
    return [
        _entry(place, attack, outcome, (audit if attack.name == counted else {}).get("score")) for attack in attacks
    ]


def _entry(place: Path, attack: Path, outcome: str | None, score: dict[str, Any] | None) -> Listed:
    """What an attack's folder says; the score of an audit stands in the audit's own file."""
    if not (attack / _RESULT).is_file():
        return Listed(str(place), attack.name, "unfinished", outcome)
    try:
        result, score = _read(attack / _RESULT), score or _read(attack / _SCORE)
        claimed = "recovered" if result["signs_determined"] else "recovered_up_to_sign"
        return Listed(
            str(place),
            attack.name,
            "finished",
            outcome,
            str(result["certificate"]["verdict"]),
            score.get(claimed),
            score.get("num_samples"),
            float(result["passes"]),
            float(result["seconds"]),
        )
    except (FileError, KeyError, TypeError, ValueError):
        return Listed(str(place), attack.name, "unreadable", outcome)


def _read(path: Path) -> dict[str, Any]:
    """A JSON file; empty if there is none."""
    from exhume.support import files

    return files.read_json(path) if path.is_file() else {}


def _table(found: list[Listed]) -> str:
    rows = [
        (
            each.run,
            each.attack or "-",
            each.verdict or ("-" if each.outcome else each.state),
            each.outcome or "-",
            "-" if each.recovered is None else f"{each.recovered} of {each.num_samples}",
            "-" if each.passes is None else f"{each.passes:,.0f}",
            "-" if each.seconds is None else duration(each.seconds),
        )
        for each in found
    ]
    return table(("run", "attack", "verdict", "audit", "recovered", "passes", "time"), rows, left=4)
