"""Many audits in one run: each model has a folder and a report of its own, and a broken one stops no other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exhume.auditing import folder
from exhume.auditing.attempts import ProgressOf
from exhume.auditing.exit_code import BAD_INPUT
from exhume.auditing.initial import SeedProgressOf
from exhume.auditing.result import Audit
from exhume.auditing.run import OutcomeCallback, audit_settings
from exhume.auditing.settings import Refused, Settings
from exhume.errors import ExhumeError, FileError, InputError, brief
from exhume.report import Level, Link, Report, Table, Verdict, page
from exhume.scoring.outcome import Outcome
from exhume.support import files

INDEX, PAGE = "audits.json", "index.html"
# Levels from bad to harmless.
_LEVELS = (Level.LEAK, Level.PARTIAL, Level.IN_WEIGHTS, Level.INCONCLUSIVE, Level.OUT_OF_REACH)


# Characters of a model's name that its folder may have.
_LONGEST = 48


@dataclass(frozen=True)
class Audited:
    """One model of several.

    Attributes:
        name: of the model.
        folder: its folder.
        audit: what was found; None if it could not be audited.
        reason: why it could not.
    """

    name: str
    folder: Path
    audit: Audit | None = None
    reason: str = ""

    @property
    def exit_code(self) -> int:
        """Of the audit; that of bad input if the model could not be audited."""
        return BAD_INPUT if self.audit is None else self.audit.exit_code

    def to_json(self) -> dict[str, Any]:
        """A line of the index."""
        found = self.audit
        return {
            "name": self.name,
            "folder": self.folder.name,
            "audited": found is not None,
            "reason": self.reason or None,
            "outcome": None if found is None else found.outcome.value,
            "exit_code": self.exit_code,
            "passed": None if found is None else found.passed,
            "level": None if found is None else found.report.verdict.level.value,
            "headline": None if found is None else found.report.verdict.headline,
            "report": None if found is None else Link(f"{self.folder.name}/{folder.PAGE}"),
        }


def audit_all(
    models: Sequence[Settings | Refused],
    out: Path,
    progress_of: ProgressOf | None = None,
    measured: OutcomeCallback = None,
    ended: Callable[[Audited], None] = lambda _: None,
    seed_progress_of: SeedProgressOf | None = None,
) -> list[Audited]:
    """Audits models one after the other; `ended` is called after each, `measured` after each altered copy of one.

    An index of all is written after every model, so that a run that is killed leaves one of the models before.
    """
    folder.check(out, INDEX)
    out.mkdir(mode=0o700, exist_ok=True)
    done: list[Audited] = []
    for place, settings in enumerate(models, start=1):
        each = _audited(settings, out, place, progress_of, measured, seed_progress_of)
        done.append(each)
        files.write_json(out / INDEX, {"models": [one.to_json() for one in done]})
        page.write(report_of_all(done), out / PAGE)
        ended(each)
    return done


def load_all(path: Path) -> list[Audited]:
    """The models of a run, read back from its folder."""
    try:
        lines = list(files.read_json(path / INDEX)["models"])
        homes = [inside(path, str(line["folder"])) for line in lines]
        return [
            Audited(str(line["name"]), home, folder.load(home) if line["audited"] else None, line["reason"] or "")
            for line, home in zip(lines, homes, strict=True)
        ]
    except (KeyError, TypeError) as error:
        raise FileError(f"{path / INDEX} is no index of audits: {error!r}") from error


def report_of_all(done: Sequence[Audited]) -> Report:
    """One page over all models: a line for each, the worst first."""
    audited = [each.audit for each in done if each.audit is not None]
    leaks = sum(each.outcome is Outcome.RECOVERED for each in audited)
    still_open = sum(each.outcome in (Outcome.NOT_RECOVERED, Outcome.INCONCLUSIVE) for each in audited)
    levels = sorted((each.report.verdict.level for each in audited), key=_LEVELS.index)
    broken = len(done) - len(audited)
    headline = f"{leaks} of {len(audited)} audited models give away training data."
    sentences = [f"{broken} could not be audited; the table says why."] if broken else []
    if still_open:
        sentences.append(f"Of {still_open} others it is not shown that their training data cannot be recovered.")
    order = {each.value: place for place, each in enumerate(_LEVELS)}
    rows = sorted((each.to_json() for each in done), key=lambda row: order.get(row["level"], len(order)))
    columns = {
        "name": "Model",
        "outcome": "Outcome",
        "headline": "Verdict",
        "passed": "Passed",
        "reason": "Not audited",
        "report": "Report",
    }
    return Report(
        title=f"{len(done)} models",
        verdict=Verdict(levels[0] if levels else Level.NEUTRAL, headline, tuple(sentences)),
        tables=(
            Table(
                "Models",
                tuple(columns.values()),
                tuple(tuple(row[name] for name in columns) for row in rows),
                caption="The worst first.",
                name="models",
            ),
        ),
    )


def _audited(
    settings: Settings | Refused,
    out: Path,
    place: int,
    progress_of: ProgressOf | None,
    measured: OutcomeCallback,
    seed_progress_of: SeedProgressOf | None,
) -> Audited:
    name = settings.name if isinstance(settings, Refused) else settings.title
    home = inside(out, folder_name(place, name))
    if isinstance(settings, Refused):
        return Audited(name, home, reason=settings.reason)
    try:
        return Audited(name, home, audit_settings(settings, home, progress_of, measured, seed_progress_of))
    except ExhumeError as error:
        return Audited(name, home, reason=str(error))
    except Exception as error:  # of a user's model, or ours: the other models are audited all the same
        return Audited(name, home, reason=f"{type(error).__name__}: {brief(error)}")


def folder_name(place: int, name: str) -> str:
    """The name of the folder of a model: its place in the list, and what of its name is safe in a path."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", unicodedata.normalize("NFKC", name))
    return f"{place:02d}-{plain[:_LONGEST].strip('-') or 'model'}"


def inside(root: str | Path, name: str) -> Path:
    """The path of `name` below `root`; refused if it leaves it by "..", an absolute path or a link."""
    root = Path(root)
    try:
        home = root.resolve()
        path = (root / name).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{brief(name, 80)!r} is not a usable name below {root}: {brief(error)}") from error
    if path == home or not path.is_relative_to(home):
        raise InputError(f"{brief(name, 80)!r} does not stay inside {root}; valid: a plain name below it")
    return root / name
