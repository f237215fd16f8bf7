"""What a fitted estimator gives away, found without the truth: rows that it keeps, and rows from its weights."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from exhume.errors import ExhumeError, InputError, TooFewEquations, brief
from exhume.estimators.findings import FitColumn, PipelineFindings, StepFinding, StepKind
from exhume.estimators.kinds import TEXT, classify
from exhume.estimators.leaks import count_of_rows, leaks_of
from exhume.estimators.plans import can_be_attacked, plan_of
from exhume.estimators.rounding import bars_in_units, rounded
from exhume.estimators.stored_rows import StoredRows, stored_rows
from exhume.estimators.undo import Rows, Values, undo_all
from exhume.estimators.walk import Passed, Step, family, walk
from exhume.results.certificate import EXACT, FAILED, RECOVERED_BELOW, Certificate
from exhume.results.reconstruction import Reconstruction
from exhume.results.stop import Stop
from exhume.support.text import plural
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target

STORED = "stored_rows"
# Relative error of a stored row after scalers were undone: rounding of float64, with a margin.
_ROUNDING = 1e-9
_KEPT_ELSEWHERE = "it was not attacked, because other steps keep the rows themselves"
_COMBINATION = (
    "its coefficients are one combination of all rows for each output; they show rows only behind features that are "
    "not linear, such as RBFSampler"
)

# Runs an attack within what is left of a budget: target, method, seconds.
Runner = Callable[[Target, str, float], Reconstruction]


@dataclass(frozen=True)
class Part:
    """Rows that one step gave, in the units of `fit`.

    Attributes:
        step: that gave them.
        method: how.
        rows: in the units of `fit`.
        result: of the attack, if any, with its samples as they reach the step's features.
        before: what these samples passed.
    """

    step: Step
    method: str
    rows: Rows
    result: Reconstruction | None = None
    before: tuple[Passed, ...] = ()


@dataclass(frozen=True)
class Recovered:
    """What was found in an estimator.

    Attributes:
        findings: step by step.
        result: the recovered rows, in the units of `fit` and without the columns that no step reads; categories are
            their places in `findings.columns`. None if there are none.
        reasons: of every attack that could not be run, method and reason.
        notes: what a reader should know.
    """

    findings: PipelineFindings
    result: Reconstruction | None
    reasons: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def recover(estimator: Any, run: Runner, seconds: float) -> Recovered:
    """Finds what a fitted estimator gives away of its rows; the truth is no part of it.

    Args:
        estimator: fitted.
        run: runs an attack on a target.
        seconds: for all attacks together.
    """
    steps, ends_at = walk(estimator), time.monotonic() + seconds
    names = column_names(estimator, steps)
    kept = {place: found for place, step in enumerate(steps) if (found := stored_rows(step)) is not None}
    parts = [Part(found.step, STORED, found.rows) for found in kept.values() if found.rows is not None]
    findings, reasons = [], []
    rows_in_file = any(part.rows.exact and part.rows.known.all() for part in parts)
    for place, step in enumerate(steps):
        if place in kept:
            findings.append(_of_kept(kept[place]))
            continue
        if not can_be_attacked(step) or rows_in_file:
            finding = _unattacked(step)
            findings.append(replace(finding, reason=_KEPT_ELSEWHERE) if can_be_attacked(step) else finding)
            continue
        left = max(ends_at - time.monotonic(), 1.0)
        finding, part, refusal = _attacked(step, count_of_rows(steps), run, left)
        findings.append(finding)
        parts += [] if part is None else [_rounded(part, names)]
        reasons += [] if refusal is None else [refusal]
    best = _merged(parts)
    if best is None:
        return Recovered(PipelineFindings(tuple(findings)), None, tuple(reasons))
    known = best.rows.known
    values, columns = encode(best.rows.values[:, known], [name for name, use in zip(names, known, strict=True) if use])
    left_out = tuple(name for name, use in zip(names, known, strict=True) if not use)
    result = _result_of(best, values)
    return Recovered(
        PipelineFindings(tuple(findings), columns, left_out), result, tuple(reasons), _notes(best, left_out)
    )


def column_names(estimator: Any, steps: Sequence[Step]) -> list[str]:
    """Names of the columns of `fit`; x0, x1, ... if they had none."""
    for each in (estimator, *(step.estimator for step in steps if not step.before)):
        names = getattr(each, "feature_names_in_", None)
        if names is not None:
            return [str(name) for name in names]
    for each in (estimator, *(step.estimator for step in steps if not step.before)):
        width = getattr(each, "n_features_in_", None)
        if width is not None:
            return [f"x{place}" for place in range(int(width))]
    text = next((step for step in steps if classify(family(step.estimator))[1] == TEXT), None)
    if text is not None:
        raise InputError(f"{text.title} is declined: {TEXT}")
    raise InputError(f"{type(estimator).__name__} does not say how many columns it was fitted on")


def encode(values: Values, names: Sequence[str]) -> tuple[torch.Tensor, tuple[FitColumn, ...]]:
    """Rows (m, d) as numbers: categories become their places in a sorted list; missing values the column's mean."""
    columns, numbers = [], []
    for name, column in zip(names, values.T, strict=True):
        categories: tuple[str, ...] = ()
        try:
            numeric = column.astype(np.float64)
        except (TypeError, ValueError):
            texts = [str(each) for each in column]
            categories = tuple(sorted(set(texts)))
            numeric = np.array([categories.index(each) for each in texts], dtype=np.float64)
        finite = np.isfinite(numeric)
        mean = numeric[finite].mean() if finite.any() else 0.0
        numbers.append(np.where(finite, numeric, mean))
        columns.append(FitColumn(name, categories))
    return torch.from_numpy(np.stack(numbers, 1)), tuple(columns)


def _attacked(
    step: Step, count: int | None, run: Runner, seconds: float
) -> tuple[StepFinding, Part | None, tuple[str, str] | None]:
    """Runs the attack on a step: what it found, and why it could not be run or its rows not be brought back."""
    leaks = leaks_of(step.estimator)

    def declined(reason: str) -> StepFinding:
        return StepFinding(step.path, step.name, StepKind.DECLINED, leaks=leaks, reason=reason)

    try:
        plan = plan_of(step, count)
        result = plan.finish(run(plan.target, plan.method, seconds))
    except (ExhumeError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
        reason = error.counted if isinstance(error, TooFewEquations) else brief(error)
        return declined(reason), None, (step.title, reason)
    result = replace(result, notes=(plan.note, *result.notes) if plan.note else result.notes)
    if not (result.norms_determined and result.signs_determined):
        reason = f"{result.certificate.reason} Without norms and signs, rows cannot be brought back to their units."
        return _missed(step, leaks, reason), None, (step.title, reason)
    try:
        rows = undo_all(plan.before, Rows.of(result.samples.detach().cpu().double().numpy()))
    except InputError as error:
        return declined(str(error)), None, (step.title, str(error))
    certified = sum(error < RECOVERED_BELOW for error in result.certificate.predicted_errors)
    part = Part(step, result.method, rows, result, plan.before)
    if result.certificate.verdict == FAILED or not certified:
        return _missed(step, leaks, result.certificate.reason), part, None
    finding = StepFinding(step.path, step.name, StepKind.RECOVERED, certified, leaks, result.certificate.reason)
    return finding, part, None


def _rounded(part: Part, names: Sequence[str]) -> Part:
    """Whole numbers and decimals made exact where the certificate's error bars allow it."""
    result = part.result
    assert result is not None
    errors = result.certificate.predicted_errors
    if result.certificate.verdict == FAILED or not errors or not part.rows.exact:
        return part
    samples = result.samples.detach().cpu().double().numpy()
    bars = bars_in_units(lambda rows: undo_all(part.before, rows), samples, errors)
    return replace(part, rows=rounded(part.rows, bars, names))


def _missed(step: Step, leaks: tuple[str, ...], reason: str) -> StepFinding:
    return StepFinding(step.path, step.name, StepKind.NOT_RECOVERED, leaks=leaks, reason=reason)


def _of_kept(found: StoredRows) -> StepFinding:
    step, what = found.step, f"{found.store.attribute} holds {found.store.which}"
    if found.rows is None and not found.count:
        return StepFinding(step.path, step.name, StepKind.DECLINED, leaks=leaks_of(step.estimator), reason=found.reason)
    reason = f"{what}; {found.reason}" if found.reason else what
    return StepFinding(step.path, step.name, StepKind.KEEPS_ROWS, found.count, leaks_of(step.estimator), reason)


def _unattacked(step: Step) -> StepFinding:
    leaks = leaks_of(step.estimator)
    kind, reason = classify(family(step.estimator))
    if kind is StepKind.KEEPS_ROWS:  # such a class, but this one keeps none
        kind, reason = (StepKind.STATISTICS, "") if leaks else (StepKind.NOTHING, "")
    if kind is StepKind.RECOVERED:  # by an attack that needs other steps before it
        kind, reason = StepKind.DECLINED, _COMBINATION
    return StepFinding(step.path, step.name, kind, leaks=leaks, reason=reason)


def _merged(parts: Sequence[Part]) -> Part | None:
    """The part with the most columns and rows, and the rows of others that tell of the same columns and are new."""
    if not parts:
        return None
    best = max(parts, key=_worth)
    for part in parts:
        same = part.method == STORED == best.method and part.rows.exact and best.rows.exact
        if part is best or not same or not np.array_equal(part.rows.known, best.rows.known):
            continue
        held = {_key(row) for row in best.rows.values}
        new = np.array([_key(row) not in held for row in part.rows.values], dtype=bool)
        values = np.concatenate([best.rows.values, part.rows.values[new]])
        best = replace(best, rows=replace(best.rows, values=values))
    return best


def _worth(part: Part) -> tuple[bool, int, int]:
    certified = part.result is None or part.result.certificate.verdict != FAILED
    return part.rows.exact and certified, int(part.rows.known.sum()), len(part.rows.values)


def _key(row: Values) -> tuple[str, ...]:
    """A row up to rounding."""
    return tuple(f"{each:.9g}" if isinstance(each, float) else str(each) for each in row)


def _result_of(part: Part, samples: torch.Tensor) -> Reconstruction:
    """The result in the units of `fit`."""
    if part.result is not None:
        found = replace(part.result, samples=samples, input_shape=(samples.shape[1],))
        if not part.rows.exact:
            certificate = replace(found.certificate, verdict=FAILED, predicted_errors=(), reason=part.rows.notes[-1])
            found = replace(found, certificate=certificate)
        return found
    count = len(samples)
    if part.rows.exact:
        reason = f"{plural(count, 'row')} of training data stand in the file; the scalers before them were undone."
        certificate = Certificate(samples.numel(), 0, 0.0, 0.0, None, (_ROUNDING,) * count, EXACT, reason)
    else:
        reason = f"{plural(count, 'row')} of training data stand in the file, but not in their units: "
        certificate = Certificate(samples.numel(), 0, 0.0, 0.0, None, (), FAILED, reason + part.rows.notes[-1])
    return Reconstruction(
        samples=samples,
        coefficients=torch.zeros(count, 1, dtype=torch.float64),
        certificate=certificate,
        target=hashlib.sha256(samples.contiguous().numpy().tobytes()).hexdigest(),
        method=STORED,
        seed=0,
        options={},
        knowledge=Knowledge(),
        stop=Stop.CONVERGED,
        steps=0,
        passes=0.0,
        seconds=0.0,
        signs_determined=True,
        norms_determined=True,
        evidence={"ending": f"The rows were read from {part.step.title}."},
        input_shape=(samples.shape[1],),
    )


def _notes(part: Part, left_out: tuple[str, ...]) -> tuple[str, ...]:
    notes = list(part.rows.notes)
    if left_out:
        notes.append(f"No step reads these columns, or what it does to them cannot be undone: {', '.join(left_out)}.")
    return tuple(dict.fromkeys(notes))
