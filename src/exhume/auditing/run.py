"""One audit from beginning to end: forecast, attack within a budget, certify, score, measure defences, report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from torch import nn

from exhume import attacks, defences
from exhume.auditing import folder
from exhume.auditing.attempts import ProgressOf, attempt, best
from exhume.auditing.estimator import audit_estimator, audit_estimator_file
from exhume.auditing.initial import SeedProgressOf
from exhume.auditing.open import Opened, data_in_memory, open_model, open_settings, read_data
from exhume.auditing.provenance import provenance_of
from exhume.auditing.result import Audit
from exhume.auditing.settings import Settings
from exhume.data import Dataset
from exhume.defences import Outcome, Release
from exhume.errors import ExhumeError, InputError
from exhume.estimators.open import is_estimator
from exhume.law import Forecast
from exhume.results.certificate import FAILED
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import Score, score_unless_diverged
from exhume.scoring.premise import Premise, premise_at
from exhume.target.diagnosis import diagnose
from exhume.target.displacement import Initial
from exhume.target.published import Count, count_published
from exhume.target.target import Target

OutcomeCallback = Callable[[Outcome], None] | None
# Measures of an audit that need the truth.
_BY_TRUTH = ("recovered", "share", "error", "closest")
# Passes for an altered copy: so many times those of the attack on the undefended model, and no fewer than these.
_MARGIN, _LEAST_PASSES = 5, 2000.0


def audit(
    model: nn.Module | Target | BaseEstimator | str | Path,
    *,
    initial: Initial | nn.Module | str | Path = "unknown",
    truth: Any = None,
    labels: Any = None,
    held_out: Any = None,
    held_out_labels: Any = None,
    reference: Any = None,
    out: str | Path | None = None,
    progress_of: ProgressOf | None = None,
    measured: OutcomeCallback = None,
    **settings: Any,
) -> Audit:
    """Does this model carry its training set? Forecasts, attacks, certifies, scores, and writes a report.

    Args:
        model: a trained module; a target; a fitted scikit-learn estimator or pipeline, whose `truth` is what was passed
            to `fit`, in its own units; or files: "mymodel.py:build" with `weights=...`, a run folder, a skops file.
        initial: weights before training: the untrained module, a state dict (such as `exhume.find_seed(...).initial`),
            the head's weights, a file, a folder of checkpoints from one of which the model was fine-tuned, "zero" or
            "unknown"; for "mymodel.py:build" with weights also "seed:0-99999", seeds of which one was used.
        truth: the training inputs (n, ...), a data set of `exhume.data`, or a file; for the score alone.
        labels: their labels.
        held_out, held_out_labels: data of the same kind that were not trained on.
        reference: a pool of samples of the same kind, such as a public data set, for baselines alone.
        out: folder for the report and the files that it is made from; None writes nothing.
        progress_of: makes a context of progress for an attack's name; None shows nothing.
        measured: called with the outcome of every altered copy.
        settings: fields of `exhume.auditing.Settings`: head, input_shape, num_samples, know, budget_seconds, ...

    Returns:
        What was found: `.outcome`, `.summary()` in words, `.report` as a page; `.exit_code` and `.passed` compare it
        with `fail_on`.

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
    data |= {"reference": reference}
    paths = {name: Path(value) for name, value in data.items() if isinstance(value, str | Path)}
    values = {name: value for name, value in data.items() if value is not None and name not in paths}
    if paths and values:
        raise InputError(f"give files or arrays, not both: {', '.join(paths)} and {', '.join(values)}")
    if isinstance(model, nn.Module | Target):
        chosen = Settings(name=settings.pop("name", type(model).__name__), **paths, **settings)
        opened = open_model(model, read_data(chosen) if paths else data_in_memory(**data), initial, chosen)
    elif not isinstance(model, str | Path):
        return _audit_estimator(model, {**paths, **settings}, values, out, progress_of)
    else:
        if values:
            raise InputError(f"a model in files needs its data in files too, not as arrays: {', '.join(values)}")
        source: dict[str, Any] = {"run": Path(model)} if Path(model).is_dir() else {"model": str(model)}
        if Path(model).is_file():
            source = {"estimator": Path(model)}
        known = {} if initial == "unknown" else {"initial": initial}
        chosen = Settings(**source, **known, **paths, **settings)
        return audit_settings(chosen, None if out is None else Path(out), progress_of, measured)
    return conduct(opened, chosen, None if out is None else Path(out), progress_of, measured)


def audit_settings(
    settings: Settings,
    out: Path | None = None,
    progress_of: ProgressOf | None = None,
    measured: OutcomeCallback = None,
    seed_progress_of: SeedProgressOf | None = None,
) -> Audit:
    """The audit of a model from files."""
    if settings.estimator is not None:
        return audit_estimator_file(settings, out, progress_of)
    if out is not None:
        folder.check(out)
    opened = open_settings(settings, seed_progress_of, None if out is None else folder.workplace(out))
    return conduct(opened, settings, out, progress_of, measured)


def _audit_estimator(
    model: Any, settings: dict[str, Any], data: dict[str, Any], out: str | Path | None, progress_of: ProgressOf | None
) -> Audit:
    """The audit of an estimator in memory; anything else is refused by its type."""
    if not is_estimator(model):
        raise InputError(
            f"an audit of a {type(model).__name__}; valid: a torch.nn.Module, a Target, a fitted scikit-learn "
            "estimator, or files"
        )
    chosen = Settings(name=settings.pop("name", type(model).__name__), **settings)
    beside = [name for name in data if name not in ("truth", "held_out")]
    if beside:
        raise InputError(f"{', '.join(beside)} cannot be given for an estimator; valid: truth, held_out")
    where = None if out is None else Path(out)
    return audit_estimator(model, chosen, where, data.get("truth"), data.get("held_out"), progress_of)


def conduct(
    opened: Opened, settings: Settings, out: Path | None, progress_of: ProgressOf | None, measured: OutcomeCallback
) -> Audit:
    """Attacks first; only then compares the results with the owner's data."""
    target, data, notes = opened
    _check(settings, target, data)
    if out is not None:
        folder.check(out)
    workplace = None if out is None else folder.workplace(out)
    attempts = attempt(target, settings, progress_of, workplace)
    result = best(attempts)
    others = [each.sentence for each in attempts if each.result is not None and each.result is not result]
    score, unscored = _scored(result, data)
    outcomes, defence_notes = _defended(target, data, settings, result, measured, workplace)
    audited = Audit(
        settings=settings,
        forecast=_forecast(target, result),
        result=result,
        score=score,
        premise=_premise(target, data, settings),
        count=_count(target, data, result),
        attempts=tuple(attempts),
        defences=outcomes,
        dataset=data,
        input_shape=target.input_shape,
        diagnosis=diagnose(target),
        notes=(*notes, *(f"Also tried: {each}" for each in others), *unscored, *defence_notes),
        provenance=provenance_of(target, settings),
        folder=out,
    )
    if out is not None:
        folder.save(audited, out)
    return audited


def _check(settings: Settings, target: Target, data: Dataset) -> None:
    """Refuses thresholds that need the truth where it is not given, and a wrong number of names of outputs."""
    for each in settings.fail_on:
        if each.measure in _BY_TRUTH and not data.num_samples:
            raise InputError(f"fail_on {each} needs the truth; give it, or use certain=1 or verdict=approximate")
    # The two signs of a single output have names of their own.
    expected = 2 if target.num_outputs == 1 else target.num_outputs
    if settings.classes and len(settings.classes) != expected:
        raise InputError(f"{len(settings.classes)} classes for {target.num_outputs} outputs; valid: {expected} names")


def _forecast(target: Target, result: Reconstruction | None) -> Forecast | None:
    """The forecast of the law for the number of samples that is known or was found."""
    count = target.knowledge.count or _num_found(result)
    return target.forecast(count) if count else None


def _num_found(result: Reconstruction | None) -> int:
    """How many samples a result shows; 0 where unmixing failed: no samples explain that rank, which may be Adam's."""
    failed = result is not None and result.method == attacks.Unmix.name and result.certificate.verdict == FAILED
    return 0 if result is None or failed else attacks.total_samples(result)


def _count(target: Target, data: Dataset, result: Reconstruction | None) -> Count | None:
    """The count over all published layers, for the number of samples of the truth, that is known, or was found."""
    count = data.num_samples or target.knowledge.count or _num_found(result)
    return count_published(target, count, confirmed=bool(data.num_samples)) if count else None


def _premise(target: Target, data: Dataset, settings: Settings) -> Premise | None:
    """The attack's equation at the truth; after the attack, so that it cannot be influenced by it."""
    if not data.num_samples:
        return None
    complete = data.num_samples >= (target.knowledge.count or 0)
    return premise_at(target, data.inputs, data.comparison_samples, complete=complete, seed=settings.seed)


def _scored(result: Reconstruction | None, data: Dataset) -> tuple[Score | None, tuple[str, ...]]:
    """The score; where it cannot be made the reason, so that the attack's result is not lost."""
    try:
        return (None, ()) if result is None else score_unless_diverged(result, data)
    except ExhumeError as error:
        return None, (f"The result could not be compared with the training data: {error}",)


def _defended(
    target: Target,
    data: Dataset,
    settings: Settings,
    result: Reconstruction | None,
    measured: OutcomeCallback,
    workplace: Path | None,
) -> tuple[tuple[Outcome, ...], tuple[str, ...]]:
    """The outcomes of the same attack on altered copies; each has several times the passes of the first attack."""
    if not settings.defences or result is None:
        return (), ()
    try:
        outcomes = defences.measure(
            Release(target, data, settings.seed),
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
