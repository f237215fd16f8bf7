"""The audit of a scikit-learn estimator: opened, walked and attacked without the truth, and only then compared."""

from __future__ import annotations

import io
import platform
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import joblib
import sklearn

from exhume import __version__, attacks
from exhume.auditing import folder
from exhume.auditing.attempts import Attempt, ProgressOf
from exhume.auditing.result import Audit
from exhume.auditing.settings import Settings
from exhume.data import Dataset
from exhume.errors import ExhumeError, InputError
from exhume.estimators.leaks import count_of_rows
from exhume.estimators.open import open_estimator
from exhume.estimators.recover import Recovered, column_names, recover
from exhume.estimators.truth import Compared, as_rows, compare, read_rows
from exhume.estimators.undo import Values
from exhume.estimators.walk import walk
from exhume.report import Fact
from exhume.results.reconstruction import Reconstruction
from exhume.target.published import Count
from exhume.target.target import Target

# Settings that mean nothing for an estimator.
_OF_NETWORKS = (
    "model", "run", "weights", "initial", "head", "input_shape", "num_samples", "labels", "held_out_labels",
    "standardise", "columns", "classes", "know", "method", "defences", "reference", "device",
)  # fmt: skip
_BY_TRUTH = ("recovered", "share", "error", "closest")


def audit_estimator_file(settings: Settings, out: Path | None, progress_of: ProgressOf | None = None) -> Audit:
    """The audit of a skops file, with the truth from files."""
    assert settings.estimator is not None
    if out is not None:
        folder.check(out)
    estimator, notes = open_estimator(settings.estimator, settings.max_size)
    return audit_estimator(estimator, settings, out, progress_of=progress_of, notes=notes)


def audit_estimator(
    estimator: Any,
    settings: Settings,
    out: Path | None = None,
    truth: Any = None,
    held_out: Any = None,
    progress_of: ProgressOf | None = None,
    notes: tuple[str, ...] = (),
) -> Audit:
    """The audit of an estimator in memory.

    Args:
        estimator: fitted.
        settings: files of the truth, budget, thresholds.
        out: folder for the report; None writes nothing.
        truth, held_out: rows in the units of `fit`, if the settings name no files.
        progress_of: makes a context of progress for an attack's name.
        notes: what opening it told.
    """
    beside = [name for name in _OF_NETWORKS if name in settings.model_fields_set]
    if beside:
        raise InputError(f"{', '.join(beside)} cannot be set for an estimator; leave {' and '.join(beside)} away")
    names = column_names(estimator, walk(estimator))
    rows, others = (
        _rows(word, values, file, names)
        for word, values, file in (("truth", truth, settings.truth), ("held_out", held_out, settings.held_out))
    )
    if rows is None and any(each.measure in _BY_TRUTH for each in settings.fail_on):
        raise InputError("fail_on recovered, share, error or closest needs the truth; give it, or use certain=1")
    if out is not None:
        folder.check(out)
    found = recover(estimator, _runner(settings, progress_of), settings.budget_seconds)
    compared, unscored = _compared(found, names, rows, others)
    result = found.result
    width = len(names) if result is None else result.samples.shape[1]
    findings = found.findings if compared is None else replace(found.findings, columns=compared.columns)
    audited = Audit(
        settings=settings,
        forecast=None,
        result=result,
        score=None if compared is None else compared.score,
        premise=None,
        count=None if result is not None else _count(estimator, names, rows),
        attempts=_attempts(found),
        defences=(),
        dataset=Dataset.without_samples(width) if compared is None else compared.dataset,
        input_shape=(width,),
        notes=(*notes, *found.notes, *(() if compared is None else compared.notes), *unscored),
        provenance=_provenance(settings),
        folder=out,
        pipeline=findings,
    )
    if out is not None:
        folder.save(audited, out)
    return audited


def _rows(word: str, values: Any, file: Path | None, names: list[str]) -> Values | None:
    if values is None and file is None:
        return None
    return as_rows(word, read_rows(file, names) if file is not None else values, names)


def _runner(settings: Settings, progress_of: ProgressOf | None) -> Any:
    """Runs an attack with the settings' seed and budget, and shows its progress."""
    # Passes through few features cost little: by default the time alone limits an attack.
    most = settings.budget_passes if "budget_passes" in settings.model_fields_set else float("inf")

    def run(target: Target, method: str, seconds: float) -> Reconstruction:
        shown = progress_of(method) if progress_of is not None else nullcontext()
        with shown as progress:
            return attacks.reconstruct(
                target,
                method=method,
                seed=settings.seed,
                max_passes=most,
                max_seconds=seconds,
                progress=progress,
            )

    return run


def _compared(
    found: Recovered, names: list[str], truth: Values | None, held_out: Values | None
) -> tuple[Compared | None, tuple[str, ...]]:
    """The comparison with the truth; where it cannot be made the reason, so that the result is not lost."""
    if found.result is None or truth is None:
        return None, ()
    kept = [place for place, name in enumerate(names) if name not in found.findings.left_out]
    try:
        others = None if held_out is None else held_out[:, kept]
        return compare(found.result, found.findings.columns, truth[:, kept], others), ()
    except ExhumeError as error:
        return None, (f"The rows could not be compared with the training rows: {error}",)


def _attempts(found: Recovered) -> tuple[Attempt, ...]:
    done = [] if found.result is None else [Attempt(found.result.method, found.result)]
    return (*done, *(Attempt(name, reason=reason) for name, reason in found.reasons))


def _count(estimator: Any, names: list[str], truth: Values | None) -> Count | None:
    """Bits of the whole estimator against the numbers of its rows: with fewer, it cannot hold them all.

    A number is taken to need one bit, as a flag does, so that an estimator is never called safe because its rows were
    counted as more than they hold.
    """
    steps = walk(estimator)
    rows = count_of_rows(steps) or (None if truth is None else len(truth))
    if rows is None:
        return None
    buffer = io.BytesIO()
    try:
        joblib.dump(estimator, buffer)
    except Exception:  # a user's own class, in any way
        return None
    bits, unknowns = 8 * buffer.tell(), rows * len(names)
    return Count(bits, unknowns, tuple(step.title for step in steps), bits > unknowns, unit="bits")


def _provenance(settings: Settings) -> tuple[Fact, ...]:
    facts = [
        Fact("exhume", __version__),
        Fact("scikit-learn", sklearn.__version__),
        Fact("Python", platform.python_version()),
        Fact("date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        Fact("seed", str(settings.seed)),
    ]
    files = ((name, getattr(settings, name)) for name in ("estimator", "truth", "held_out"))
    return (*facts, *(Fact(name, str(value)) for name, value in files if value is not None))
