"""One audit from beginning to end: forecast, attack within a budget, certify, score, measure defences, report."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from exhume import attacks, defences, scoring
from exhume.auditing import folder
from exhume.auditing.attempts import Attempt, ProgressOf, attempt, best
from exhume.auditing.audited import Audit
from exhume.auditing.given import Given, picture_format, table_format
from exhume.auditing.opening import Opened, open_module, open_settings, refuse, under
from exhume.auditing.settings import Settings
from exhume.auditing.weights import read_weights
from exhume.defences import Outcome, Release
from exhume.displacement import Initial
from exhume.errors import ExhumeError, InputError
from exhume.forecasts import forecast_of
from exhume.law import Forecast
from exhume.reconstruction import Reconstruction
from exhume.report import Fact
from exhume.scoring import Score
from exhume.target import Target
from exhume.version import VERSION

Measured = Callable[[Outcome], None] | None
# Measures of an audit that need the truth.
_BY_TRUTH = ("recovered", "share", "error", "closest")
# Settings that say from which files a model comes.
_FROM_DISK = ("weights", "config", "model", "architecture", "run")
# Passes for an altered copy: so many times those of the attack on the model as it is, and no fewer than these.
_MARGIN, _LEAST_PASSES = 5, 2000.0


def audit(
    model: nn.Module | Target | str | Path,
    *,
    initial: Initial | str | Path = "unknown",
    truth: Any = None,
    labels: Any = None,
    held_out: Any = None,
    held_out_labels: Any = None,
    out: str | Path | None = None,
    progress_of: ProgressOf | None = None,
    measured: Measured = None,
    **settings: Any,
) -> Audit:
    """Does this model carry its training set? Forecasts, attacks, certifies, scores, and writes a report.

    Args:
        model: a trained module; a target; or files: "mymodel.py:build" with `weights=...`, or a run folder.
        initial: weights before training: a state dict, the head's weights, a file, "zero" or "unknown".
        truth: the training inputs (n, ...), a data set of `exhume.data`, or a file; for the score alone.
        labels: their labels.
        held_out, held_out_labels: data of the same kind that were not trained on.
        out: folder for the report and everything behind it; None writes nothing.
        progress_of: makes a context of progress for an attack's name; None shows nothing.
        measured: called with the outcome of every altered copy.
        settings: fields of `exhume.auditing.Settings`: head, input_shape, num_samples, know, budget_seconds, ...

    Returns:
        What was found; `.summary()` says it, `.report` is the page, `.passed` compares it with `fail_on`.

    Examples:
        >>> import exhume
        >>> from exhume import data
        >>> sphere = data.load("sphere", dim=8, samples=4)
        >>> victim = exhume.RandomFeatures(num_features=200).fit(sphere.inputs, sphere.labels)
        >>> target = victim.target(knowledge=exhume.Knowledge(num_samples=4))
        >>> found = exhume.audit(target, truth=sphere.inputs, fail_on=["recovered=1"])
        >>> found.score.recovered, found.passed
        (4, False)
    """
    data = {"truth": truth, "labels": labels, "held_out": held_out, "held_out_labels": held_out_labels}
    paths = {name: Path(value) for name, value in data.items() if isinstance(value, str | Path)}
    values = {name: value for name, value in data.items() if value is not None and name not in paths}
    if paths and values:
        raise InputError(f"give files or arrays, not both: {', '.join(paths)} and {', '.join(values)}")
    if isinstance(model, nn.Module | Target):
        chosen = Settings(name=settings.pop("name", type(model).__name__), **paths, **settings)
        opened = _opened(model, Given.read(chosen) if paths else Given.of(**data), initial, chosen)
    else:
        if values:
            raise InputError(f"a model from files takes its data from files too; {', '.join(values)} is in memory")
        source = {"run": Path(model)} if Path(model).is_dir() else {"model": str(model)}
        known = {} if initial == "unknown" else {"initial": initial}
        chosen = Settings(**source, **known, **paths, **settings)
        opened = open_settings(chosen)
    return conduct(opened, chosen, None if out is None else Path(out), progress_of, measured)


def audit_settings(
    settings: Settings, out: Path | None = None, progress_of: ProgressOf | None = None, measured: Measured = None
) -> Audit:
    """The audit of a model from files."""
    return conduct(open_settings(settings), settings, out, progress_of, measured)


def conduct(
    opened: Opened, settings: Settings, out: Path | None, progress_of: ProgressOf | None, measured: Measured
) -> Audit:
    """Attacks first; only then are the owner's data compared with what came back."""
    _check_thresholds(settings, opened.given)
    _check_classes(settings, opened.target)
    if out is not None:
        folder.check(out)
    workplace = None if out is None else folder.workplace(out)
    attempts = attempt(opened.target, settings, progress_of, workplace)
    result = best(attempts)
    score, unscored = _scored(result, opened)
    outcomes, undefended = _defended(opened, settings, result, measured, workplace)
    audited = Audit(
        settings=settings,
        forecast=_forecast(opened.target, result),
        result=result,
        score=score,
        attempts=tuple(attempts),
        defences=outcomes,
        given=opened.given,
        input_shape=opened.target.input_shape,
        notes=(*opened.notes, *_tried(attempts, result), *unscored, *undefended),
        provenance=_provenance(opened.target, settings),
        folder=out,
    )
    if out is not None:
        folder.save(audited, out)
    return audited


def _opened(model: nn.Module | Target, given: Given, initial: Any, settings: Settings) -> Opened:
    given = Given(
        given.inputs,
        given.labels,
        given.held_out,
        given.held_out_labels,
        given.picture or picture_format(settings),
        given.table or table_format(settings),
    )
    if isinstance(model, Target):
        refuse(settings, (*_FROM_DISK, "head", "input_shape", "device"), "a target")
        if not (isinstance(initial, str) and initial == "unknown"):
            raise InputError("a target holds its own initial weights; leave initial away")
        model = under(model, settings)
        return Opened(model, given.fitting(model.feature_map.input_dim, model.num_outputs))
    if isinstance(initial, Path) or (isinstance(initial, str) and initial not in ("zero", "unknown")):
        initial = read_weights(Path(initial), max_bytes=settings.max_size).tensors
    refuse(settings, _FROM_DISK, "a module in memory")
    return open_module(model, given, initial=initial, settings=settings)


def _check_thresholds(settings: Settings, given: Given) -> None:
    """A threshold that nothing could ever reach is a mistake, not a pass."""
    if given.inputs is None:
        for each in settings.fail_on:
            if each.measure in _BY_TRUTH:
                raise InputError(f"fail_on {each} needs the truth; give it, or use certain=1 or verdict=approximate")


def _check_classes(settings: Settings, target: Target) -> None:
    """Names of outputs are as many as there are outputs, or two for the signs of one."""
    expected = 2 if target.num_outputs == 1 else target.num_outputs
    if settings.classes and len(settings.classes) != expected:
        raise InputError(f"{len(settings.classes)} classes for {target.num_outputs} outputs; valid: {expected} names")


def _forecast(target: Target, result: Reconstruction | None) -> Forecast | None:
    """The law's word, on the number of samples that is known or was found."""
    known = target.knowledge
    found = None if result is None else len(result.samples) + known.known_samples
    count = known.count or found
    return None if count is None else forecast_of(target, count)


def _scored(result: Reconstruction | None, opened: Opened) -> tuple[Score | None, tuple[str, ...]]:
    """The score, or what kept it from being made: an attack that is done is not thrown away."""
    given = opened.given
    if result is None or given.inputs is None:
        return None, ()
    if not bool(torch.isfinite(result.samples).all()):
        return None, ("The attack diverged, so its rows were not compared with the training data.",)
    try:
        judged = scoring.score(
            result,
            given.inputs,
            non_members=given.held_out,
            true_labels=given.labels,
            to_pictures=given.picture.to_pictures if given.picture else None,
        )
    except ExhumeError as error:
        return None, (f"The result could not be compared with the training data: {error}",)
    return judged, ()


def _defended(
    opened: Opened, settings: Settings, result: Reconstruction | None, measured: Measured, workplace: Path | None
) -> tuple[tuple[Outcome, ...], tuple[str, ...]]:
    """The same attack on altered copies, each with a budget that would do for the model as it is many times over."""
    if not settings.defences or result is None:
        return (), ()
    given = opened.given
    try:
        outcomes = defences.measure(
            Release(
                opened.target, given.inputs, given.labels, given.held_out, given.held_out_labels, seed=settings.seed
            ),
            attacks.build(result.method),
            families=settings.defences,
            undefended=result,
            max_passes=min(settings.budget_passes, max(_MARGIN * result.passes, _LEAST_PASSES)),
            max_seconds=settings.budget_seconds,
            seed=settings.seed,
            progress=measured,
            folder=workplace,
        )
    except ExhumeError as error:
        return (), (f"Defences could not be measured: {error}",)
    return tuple(outcomes), ()


def _tried(attempts: Sequence[Attempt], result: Reconstruction | None) -> list[str]:
    """What is to be said of attacks that do not have the last word."""
    others = [each for each in attempts if each.result is not None and each.result is not result]
    return [f"Also tried: {each.sentence}" for each in others]


def _provenance(target: Target, settings: Settings) -> tuple[Fact, ...]:
    facts = [
        Fact("exhume", VERSION),
        Fact("torch", torch.__version__),
        Fact("Python", platform.python_version()),
        Fact("date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        Fact("initial weights of the head", target.knowledge.initial_head),
        Fact("seed", str(settings.seed)),
        Fact("budget", f"{settings.budget_passes:,.0f} feature passes, {settings.budget_seconds:,.0f} s"),
    ]
    for name in ("model", "architecture", "run", "weights", "initial", "head", "truth", "labels"):
        value = getattr(settings, name)
        if name in settings.model_fields_set and value is not None:
            facts.append(Fact(name, str(value)))
    return tuple(facts)
